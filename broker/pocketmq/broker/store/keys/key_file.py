"""The key file of a segment: sorted runs of (hash, offset), each made once and never changed.

What it holds is derived from the log. A file that is missing, damaged, or of records that are no
longer there is made again; docs/store-format.md has the layout.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from isal.isal_zlib import crc32

from pocketmq.broker.store.disk.files import Files
from pocketmq.broker.store.keys.message_keys import OFFSET_BITS
from pocketmq.broker.store.log.segment import HEADER_SIZE, KEYS_MAGIC, Segment

_RUN = Struct(">4sIIIII")
_CRC = Struct(">I")
_RUN_MARK = b"KRUN"
RUN_HEADER_SIZE = 32
assert _RUN.size + _CRC.size <= RUN_HEADER_SIZE

ITEM_SIZE = 8
BLOCK_ITEMS = 512
"""Items that are read and checked together: 4 KiB."""

_FENCE_SIZE = ITEM_SIZE + 4
_OFFSET_MAX = (1 << OFFSET_BITS) - 1


class KeyFileError(Exception):
    """A key file is damaged; it must be thrown away and made again."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = path, reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class SortedRun(NamedTuple):
    """The header of one sorted run.

    Attributes:
        at: where its header stands in the file.
        first_offset, end_offset: of the records that it covers.
        item_count: how many items it has.
        fingerprint: CRC-32 of the last record that it covers.
        fences_crc: CRC-32 of its fences.
    """

    at: int
    first_offset: int
    end_offset: int
    item_count: int
    fingerprint: int
    fences_crc: int

    @property
    def blocks(self) -> int:
        """How many blocks its items fill."""
        return -(-self.item_count // BLOCK_ITEMS)

    @property
    def fences_at(self) -> int:
        """Position of the fences: the first item and the CRC-32 of each block."""
        return self.at + RUN_HEADER_SIZE + self.item_count * ITEM_SIZE

    @property
    def end(self) -> int:
        """Position of the run's end."""
        return self.fences_at + self.blocks * _FENCE_SIZE

    def header(self, base_offset: int) -> bytes:
        """Encodes the header that the run begins with."""
        fixed = _RUN.pack(
            _RUN_MARK,
            self.first_offset - base_offset,
            self.end_offset - base_offset,
            self.item_count,
            self.fingerprint,
            self.fences_crc,
        )
        return (fixed + _CRC.pack(crc32(fixed))).ljust(RUN_HEADER_SIZE, b"\0")


class KeyFile:
    """The runs of a segment's key file, which follow each other without a gap.

    Attributes:
        segment: whose records it finds.
        runs: in order.
    """

    def __init__(self, files: Files, segment: Segment, runs: Iterable[SortedRun] = ()) -> None:
        self._files, self.segment, self.runs = files, segment, list(runs)
        self._path = segment.keys_path

    @property
    def end_offset(self) -> int:
        """The offset behind the last record that the file covers."""
        return self.runs[-1].end_offset if self.runs else self.segment.base_offset

    @property
    def _end(self) -> int:
        return self.runs[-1].end if self.runs else HEADER_SIZE

    def append(self, items: Iterable[int], end_offset: int, fingerprint: int) -> None:
        """Adds a run that goes on where the last one ends.

        Args:
            items: see `message_keys.index_items`.
            end_offset: behind the last record that they are of.
            fingerprint: CRC-32 of that record.

        Raises:
            OSError: the file may hold a part of it, which the next one overwrites.
        """
        segment = self.segment
        if not self.runs:
            self._files.create(self._path, segment.header(KEYS_MAGIC))
        writer = RunWriter(self._files, self._path, self._end)
        writer.add(_sorted(array("Q", items)))
        self.runs.append(writer.finish(segment, self.end_offset, end_offset, fingerprint))

    def drop_last(self) -> None:
        """Forgets the last run."""
        self.runs.pop()
        self._files.truncate(self._path, self._end)

    def find(self, word: int, low: int, high: int) -> Iterator[int]:
        """Returns the offsets, from `low` to before `high`, of records with a hash; the newest
        first.

        Raises:
            KeyFileError: the file is damaged.
        """
        base = self.segment.base_offset
        first = word << OFFSET_BITS
        low_item = first | max(low - base, 0)
        high_item = first | min(max(high - base, 0), _OFFSET_MAX)
        last = -1
        for run in reversed(self.runs):
            if run.first_offset < high and run.end_offset > low:
                for item in self._find_in(run, low_item, high_item):
                    if item != last:  # two keys of one record may have one hash
                        yield base + (item & _OFFSET_MAX)
                    last = item

    def _find_in(self, run: SortedRun, low_item: int, high_item: int) -> Iterator[int]:
        firsts, checksums = self.fences(run)
        block = bisect_left(firsts, high_item) - 1
        while block >= 0:
            items = self.block(run, block, checksums[block])
            start = bisect_left(items, low_item)
            yield from reversed(items[start : bisect_left(items, high_item)])
            if start:
                return
            block -= 1

    def fences(self, run: SortedRun) -> tuple[array[int], array[int]]:
        """Reads the first item and the checksum of each block of a run.

        Raises:
            KeyFileError: they are damaged.
        """
        data = self._files.read(self._path, run.fences_at, run.end - run.fences_at)
        if len(data) != run.end - run.fences_at or crc32(data) != run.fences_crc:
            raise KeyFileError(self._path, "the fences of a run are damaged")
        split = run.blocks * ITEM_SIZE
        return _numbers("Q", data[:split]), _numbers("I", data[split:])

    def block(self, run: SortedRun, index: int, checksum: int) -> array[int]:
        """Reads the items of a block of a run.

        Raises:
            KeyFileError: it is damaged.
        """
        size = min(BLOCK_ITEMS, run.item_count - index * BLOCK_ITEMS) * ITEM_SIZE
        at = run.at + RUN_HEADER_SIZE + index * BLOCK_ITEMS * ITEM_SIZE
        data = self._files.read(self._path, at, size)
        if crc32(data) != checksum:
            raise KeyFileError(self._path, f"block {index} of a run is damaged")
        return _numbers("Q", data)


class RunWriter:
    """Writes one run to a file, its items in order and part by part."""

    def __init__(self, files: Files, path: Path, at: int) -> None:
        self._files, self._path, self._at = files, path, at
        self._count = 0
        self._rest = array("Q")
        self._firsts = array("Q")
        self._checksums = array("I")

    def add(self, items: array[int]) -> None:
        """Writes the next items.

        Raises:
            OSError: the disk is full or failed.
        """
        items = self._rest + items
        whole = len(items) - len(items) % BLOCK_ITEMS
        self._rest = items[whole:]
        self._write(items[:whole])

    def _write(self, items: array[int]) -> None:
        if not items:
            return
        data = _encoded(items)
        block_size = BLOCK_ITEMS * ITEM_SIZE
        for start in range(0, len(data), block_size):
            self._firsts.append(items[start // ITEM_SIZE])
            self._checksums.append(crc32(data[start : start + block_size]))
        self._files.write(self._path, self._at + RUN_HEADER_SIZE + self._count * ITEM_SIZE, data)
        self._count += len(items)

    def finish(
        self, segment: Segment, first_offset: int, end_offset: int, fingerprint: int
    ) -> SortedRun:
        """Writes the rest, the header last; returns the run.

        Raises:
            OSError: the disk is full or failed.
        """
        self._write(self._rest)
        fences = _encoded(self._firsts) + _encoded(self._checksums)
        run = SortedRun(self._at, first_offset, end_offset, self._count, fingerprint, crc32(fences))
        self._files.write(self._path, run.fences_at, fences)
        self._files.write(self._path, run.at, run.header(segment.base_offset))
        return run


def read_key_file(files: Files, segment: Segment) -> KeyFile:
    """Reads the key file of a segment with its sound runs, perhaps none.

    Whether their records are still there is for the caller to find out.
    """
    key_file = KeyFile(files, segment)
    path = segment.keys_path
    if not files.exists(path) or files.read(path, 0, HEADER_SIZE) != segment.header(KEYS_MAGIC):
        return key_file
    size = files.size(path)
    at, offset = HEADER_SIZE, segment.base_offset
    while True:
        header = files.read(path, at, RUN_HEADER_SIZE)
        if len(header) < RUN_HEADER_SIZE:
            return key_file
        mark, first, end, count, fingerprint, fences_crc = _RUN.unpack_from(header)
        run = SortedRun(
            at, first + segment.base_offset, end + segment.base_offset, count, fingerprint,
            fences_crc,
        )  # fmt: skip
        if (
            mark != _RUN_MARK
            or header != run.header(segment.base_offset)
            or run.first_offset != offset
            or run.end_offset <= offset
            or run.end > size
        ):
            return key_file
        key_file.runs.append(run)
        at, offset = run.end, run.end_offset


def _sorted(items: array[int]) -> array[int]:
    """Sorts items, in a tenth of the time once a bulk request has brought numpy in."""
    if "numpy" not in sys.modules:
        return array("Q", sorted(items))
    import numpy as np

    return array("Q", np.sort(np.frombuffer(items, np.uint64)).tobytes())


def _encoded(numbers: array[int]) -> bytes:
    if sys.byteorder == "little":
        numbers = numbers[:]
        numbers.byteswap()
    return numbers.tobytes()


def _numbers(kind: str, data: bytes) -> array[int]:
    numbers = array(kind, data)
    if sys.byteorder == "little":
        numbers.byteswap()
    return numbers


assert array("Q").itemsize == ITEM_SIZE
assert array("I").itemsize == 4
