"""Rows whose numbers are samples, a family for each column."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from pocketmq.runtime.metrics.exposition import Exposition, Family, sample_lines

ROWS_MAX = 250
"""Rows that are written before others may have their turn."""

WORK_OF_ROWS = ROWS_MAX // 4
"""Rows that are as they were cost as much as so many lines."""


class _Portion(NamedTuple):
    """Rows that are written at once.

    Attributes:
        keys: the columns by which the rows are labelled.
        labels: the text of each row's labels.
        values: the columns of numbers.
        texts: of the samples of each column; none until they are written.
    """

    keys: tuple[tuple[str, ...], ...]
    labels: list[str]
    values: tuple[tuple[float, ...], ...]
    texts: list[str]


class Columns:
    """Writes rows for each scrape; what is as in the scrape before keeps its text.

    Most topics and groups of a broker are idle from one scrape to the next.

    Args:
        written: the families of the columns.
    """

    def __init__(self, written: tuple[Family, ...]) -> None:
        self.written = written
        self._portions: list[_Portion] = []
        self._version: object = None

    def write(
        self,
        out: Exposition,
        rows: Sequence[tuple[Any, ...]],
        label: Callable[..., str],
        version: object = None,
    ) -> Iterator[int]:
        """Writes the rows; yields the work.

        Args:
            out: the scrape.
            rows: each a number for each family, and what it is labelled by.
            label: makes the text of a row's labels from these.
            version: of what else `label` goes by.
        """
        known = self._portions if version == self._version else []
        starts = range(0, len(rows), ROWS_MAX)
        before = [*known[: len(starts)], *[None] * (len(starts) - len(known))]
        portions: list[_Portion] = []
        for start, old in zip(starts, before, strict=True):
            portions.append(self._portion(rows[start : start + ROWS_MAX], old, label))
            yield ROWS_MAX
        for place, family in enumerate(self.written):
            out.begin(family)
            for portion, old in zip(portions, before, strict=True):
                values = portion.values[place]
                if old is not None and old.labels is portion.labels and old.values[place] == values:
                    portion.texts.append(old.texts[place])
                    yield WORK_OF_ROWS
                else:
                    portion.texts.append(sample_lines(family, portion.labels, values))
                    yield ROWS_MAX
                out.samples(portion.texts[place])
        self._portions, self._version = portions, version

    def _portion(
        self, rows: Sequence[tuple[Any, ...]], before: _Portion | None, label: Callable[..., str]
    ) -> _Portion:
        columns = tuple(zip(*rows, strict=True))
        keys, values = columns[len(self.written) :], columns[: len(self.written)]
        if before is not None and before.keys == keys:
            return _Portion(keys, before.labels, values, [])
        return _Portion(keys, [label(*key) for key in zip(*keys, strict=True)], values, [])
