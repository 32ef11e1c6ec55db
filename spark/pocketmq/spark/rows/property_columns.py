"""Takes the properties of many messages apart, all at once."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.record_columns import parts_at

Ints = npt.NDArray[np.int64]

_NAME_END, _VALUE_END = ord(props.NAME_END), ord(props.VALUE_END)
_WORDS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


class _Spans(NamedTuple):
    """The positions of names and values in the text of all messages."""

    name_starts: Ints
    name_ends: Ints
    value_ends: Ints


class PropertyColumns:
    """The properties of many messages.

    Args:
        texts: an Arrow array of strings, the properties of each message as they travel.
    """

    def __init__(self, texts: Any) -> None:
        self._rows = len(texts)
        whole, row_of, self._text = _regular_spans(texts) or _any_spans(texts)
        # An entry is name 0x01 value; one without a name or a value is dropped, as RocketMQ does.
        is_whole = (whole.name_ends > whole.name_starts) & (whole.value_ends > whole.name_ends + 1)
        if not is_whole.all():
            whole = _Spans(*(places[is_whole] for places in whole))
            row_of = row_of[is_whole]
        self._spans, self._row_of = whole, row_of

    def value_of(self, name: str) -> Any:
        """Returns one property of each message; null where it is not set."""
        found = self._entries_of(name.encode())
        rows = self._row_of[found]
        spans = self._spans
        values = self._strings(spans.name_ends[found] + 1, spans.value_ends[found])
        if len(found) == self._rows and np.array_equal(rows, np.arange(self._rows)):
            return values
        index = np.full(self._rows, -1, np.int64)
        index[rows] = np.arange(len(found))  # of two with the same name the last one counts
        return values.take(pa.array(index, mask=index < 0))

    def maps(self) -> Any:
        """Returns all properties of each message as a map."""
        spans, row_of = self._spans, self._row_of
        names = self._strings(spans.name_starts, spans.name_ends)
        values = self._strings(spans.name_ends + 1, spans.value_ends)
        doubled = _earlier_doubles(names, row_of)
        if doubled is not None:
            keep = pa.array(~doubled)
            names, values, row_of = names.filter(keep), values.filter(keep), row_of[~doubled]
        counts = np.bincount(row_of, minlength=self._rows)
        offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
        return pa.MapArray.from_arrays(pa.array(offsets), names, values)

    def _entries_of(self, name: bytes) -> Ints:
        """Finds the entries that have a name."""
        starts, size = self._spans.name_starts, len(name)
        found = np.flatnonzero(self._spans.name_ends - starts == size)
        if len(found) == 0:
            return found
        word = _WORDS.get(size)
        rows = parts_at(self._text, starts[found], size)
        if word is None:
            is_it = (rows == np.frombuffer(name, np.uint8)).all(axis=1)
        else:
            is_it = rows.view(word).reshape(-1) == np.frombuffer(name, word)[0]
        named: Ints = found[is_it]
        return named

    def _strings(self, starts: Ints, ends: Ints) -> Any:
        return cut_out(self._text, starts, ends).view(pa.string())


def cut_out(data: Any, starts: Ints, ends: Ints) -> Any:
    """Makes parts of bytes, in order and not overlapping, an Arrow array of binaries.

    An array is laid over the bytes whose elements are by turns a part and the gap before the next
    one, and every second one is taken.
    """
    count = len(starts)
    if count == 0:
        return pa.array([], pa.binary())
    offsets = np.empty(2 * count, np.int32)
    offsets[0::2], offsets[1::2] = starts, ends
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    laid_over = pa.Array.from_buffers(pa.binary(), 2 * count - 1, buffers)
    return laid_over.take(pa.array(np.arange(0, 2 * count, 2)))


def _regular_spans(texts: Any) -> tuple[_Spans, Ints, memoryview] | None:
    """Finds the entries if all are written as PocketMQ and RocketMQ write them, else None.

    That is: one mark ends each name and another each value, also the last one of a message.
    """
    ends, text = _text_of(texts)
    units = np.frombuffer(text, np.uint8)
    # Unsigned: the marks are the two smallest after 1 is taken off.
    marks = np.flatnonzero(units - np.uint8(1) < 2)
    kinds = units[marks]
    if len(marks) % 2 or (kinds[0::2] != _NAME_END).any() or (kinds[1::2] != _VALUE_END).any():
        return None
    name_ends, value_ends = marks[0::2], marks[1::2]
    # Each message that is not empty has to end where a value does.
    is_end = np.ones(len(ends), bool)
    is_end[ends > 0] = text and units[ends[ends > 0] - 1] == _VALUE_END
    if not is_end.all():
        return None
    starts = np.zeros(len(value_ends), np.int64)
    starts[1:] = value_ends[:-1] + 1
    counts = np.diff(np.searchsorted(value_ends, ends))
    return _Spans(starts, name_ends, value_ends), np.repeat(np.arange(len(texts)), counts), text


def _any_spans(texts: Any) -> tuple[_Spans, Ints, memoryview]:
    """Finds the entries of properties that are written in any way."""
    entries = pc.split_pattern(texts, props.VALUE_END)
    row_of = np.repeat(np.arange(len(texts)), np.diff(entries.offsets.to_numpy()))
    flat = entries.flatten()
    name_sizes = np.asarray(pc.find_substring(flat, props.NAME_END)).astype(np.int64)
    ends, text = _text_of(flat)
    # Without a mark, -1 is found: a name of less than nothing.
    return _Spans(ends[:-1], ends[:-1] + name_sizes, ends[1:]), row_of, text


def _text_of(texts: Any) -> tuple[Ints, memoryview]:
    """Returns where each text begins and the last one ends, and the bytes of all texts."""
    _, offsets, data = texts.buffers()
    if not len(texts):
        return np.zeros(1, np.int64), memoryview(b"")
    ends = np.frombuffer(offsets, np.int32, len(texts) + 1, texts.offset * 4).astype(np.int64)
    return ends - ends[0], memoryview(data or b"")[ends[0] : ends[-1]]


def _earlier_doubles(names: Any, row_of: Ints) -> npt.NDArray[np.bool_] | None:
    """Tells which entries a later one of the same name and message overrides; None without any."""
    codes = np.array(names.dictionary_encode().indices, np.int64)
    if len(codes) == 0:
        return None
    kinds = int(codes.max()) + 1
    if _is_uniform(codes, row_of, kinds):
        return None
    pairs = row_of * kinds + codes
    _, last = np.unique(pairs[::-1], return_index=True)
    if len(last) == len(pairs):
        return None
    doubled = np.ones(len(pairs), bool)
    doubled[len(pairs) - 1 - last] = False
    return doubled


def _is_uniform(codes: Ints, row_of: Ints, kinds: int) -> bool:
    """Whether each message has the same names in the same order, as most batches do."""
    rows = int(row_of[-1]) + 1
    if len(codes) != kinds * rows:
        return False
    is_same = (codes.reshape(rows, kinds) == np.arange(kinds)).all()
    return bool(is_same and (np.arange(rows) == row_of.reshape(rows, kinds).T).all())
