"""Writes metrics in Prometheus' text format (0.0.4) and in OpenMetrics (1.0.0)."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from functools import cache
from itertools import islice
from typing import NamedTuple, TypeVar

from pocketmq.runtime.clock import Clock
from pocketmq.runtime.slices import next_slice

T = TypeVar("T")

WORK_PER_SLICE = 500
"""Units of work, each about a line or a look at a queue, between two turns: below 1 ms."""

_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class Kind(Enum):
    """The kinds of metrics, by their names in the text."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Format(Enum):
    """The two formats, by their content types."""

    TEXT = "text/plain; version=0.0.4; charset=utf-8"
    OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


class Family(NamedTuple):
    """A metric.

    Attributes:
        name: of its samples; that of a counter ends with ``_total``.
        kind: counter, gauge or histogram.
        text: says what it measures; a line without backslashes and quotes.
        bounds: the upper bounds of a histogram's buckets, but for the infinite one.
    """

    name: str
    kind: Kind
    text: str
    bounds: tuple[float, ...] = ()


def head(family: Family, written_as: Format) -> str:
    """Returns the lines before the samples of a family."""
    name = family.name
    if written_as is Format.OPENMETRICS and family.kind is Kind.COUNTER:
        name = name.removesuffix("_total")
    return f"# HELP {name} {family.text}\n# TYPE {name} {family.kind.value}\n"


def label_text(labels: Mapping[str, str]) -> str:
    """Returns labels as a sample has them, without the closing brace: see `with_label`."""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())


def _escaped(value: str) -> str:
    if '"' in value or "\\" in value or "\n" in value:
        return value.translate(_ESCAPES)
    return value


def with_label(labels: str, name: str, value: object) -> str:
    """Adds a label, whose value needs no escapes, to a `label_text`."""
    return f'{labels}{"," if len(labels) > 1 else ""}{name}="{value}"'


@cache
def _bound_texts(bounds: tuple[float, ...]) -> tuple[str, ...]:
    return (*(str(float(bound)) for bound in bounds), "+Inf")


def portions(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yields the items as they are now in lists, so that others have their turn between two."""
    left = iter(list(items))
    while portion := list(islice(left, size)):
        yield portion


class LabelSets:
    """Remembers the texts of label sets from one scrape to the next.

    What a scrape has not used is forgotten after the next one, so that the sets of topics and
    groups that are gone do not stay.

    Args:
        common: the labels that all sets begin with.
        names: of the labels whose values differ.
        complete: makes the values of these labels from those that `text` is given; by default
            they are the same.
    """

    def __init__(
        self,
        common: Mapping[str, str],
        *names: str,
        complete: Callable[..., tuple[str, ...]] | None = None,
    ) -> None:
        self._start, self._names, self._complete = label_text(common), names, complete
        self._current: dict[tuple[str, ...], str] = {}
        self._before: dict[tuple[str, ...], str] = {}

    def __len__(self) -> int:
        return len(self._current.keys() | self._before.keys())

    def text(self, *values: str) -> str:
        """Returns the text of a set, see `label_text`."""
        found = self._current.get(values)
        if found is None:
            found = self._before.get(values)
            if found is None:
                complete = values if self._complete is None else self._complete(*values)
                found = self._start
                for name, value in zip(self._names, complete, strict=True):
                    found = with_label(found, name, _escaped(value))
            self._current[values] = found
        return found

    def end_scrape(self) -> None:
        """Forgets the sets that the scrape has not used."""
        self._before, self._current = self._current, {}


def sample_lines(family: Family, labels: Iterable[str], values: Iterable[float]) -> str:
    """Returns samples of a family as text, each of its labels, see `label_text`, and number."""
    name = family.name
    rows = zip(labels, values, strict=True)
    return "".join([f"{name}{of_sample}}} {value}\n" for of_sample, value in rows])


class Exposition:
    """The text of one scrape, as it grows.

    Args:
        written_as: the format.
        is_compressed: whether the result is gzip.
        clock: gives turns to others.
    """

    def __init__(self, written_as: Format, clock: Clock, *, is_compressed: bool = False) -> None:
        self.format = written_as
        self._clock = clock
        self._lines: list[str] = []
        self._pieces: list[bytes] = []
        self._gzip = zlib.compressobj(1, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
        self._is_compressed = is_compressed
        self._name = ""

    def begin(self, family: Family) -> None:
        """Begins the samples of a family; each has one place in the text."""
        self._name = family.name
        self._lines.append(head(family, self.format))

    def sample(self, labels: str, value: float) -> None:
        """Writes a sample of the family that has begun.

        Args:
            labels: of `LabelSets` or `label_text`.
            value: its number.
        """
        self._lines.append(f"{self._name}{labels}}} {value}\n")

    def samples(self, text: str) -> None:
        """Writes samples of the family that has begun, which `sample_lines` has made."""
        self._lines.append(text)

    def histogram(self, labels: str, family: Family, counts: Iterable[int], total: float) -> None:
        """Writes the buckets, the sum and the count of a histogram.

        Args:
            labels: as of `sample`.
            family: has the bounds.
            counts: of each bucket alone, the infinite one last.
            total: the sum of all that was observed.
        """
        name, lines, below = self._name, self._lines, 0
        start = f"{name}_bucket{labels}{',' if len(labels) > 1 else ''}le="
        for bound, count in zip(_bound_texts(family.bounds), counts, strict=True):
            below += count
            lines.append(f'{start}"{bound}"}} {below}\n')
        lines.append(f"{name}_sum{labels}}} {total}\n{name}_count{labels}}} {below}\n")

    async def write(self, source: Iterator[int]) -> None:
        """Runs a source, which writes samples and yields how much work it did, in slices."""
        done = 0
        for work in source:
            done += work
            if done >= WORK_PER_SLICE:
                done = 0
                self._flush()
                await next_slice(self._clock)
        self._flush()

    def _flush(self) -> None:
        piece = "".join(self._lines).encode()
        self._lines.clear()
        self._pieces.append(self._gzip.compress(piece) if self._is_compressed else piece)

    def end(self) -> bytes:
        """Ends the text and returns it."""
        if self.format is Format.OPENMETRICS:
            self._lines.append("# EOF\n")
        self._flush()
        if self._is_compressed:
            self._pieces.append(self._gzip.flush())
        return b"".join(self._pieces)
