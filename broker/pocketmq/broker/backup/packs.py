"""Packs: the files of a backup directory that hold records, written once and never changed.

A pack holds runs. A run is what one backup has copied of one log into one pack: the items that a
leader would have sent to a follower (`replication.items.Records`), back to back.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path

import msgspec
from isal.isal_zlib import crc32

from pocketmq.broker.backup.wire import Piece, checksum
from pocketmq.broker.replication.items import Records, decode_items, encode_item
from pocketmq.broker.store.disk.errors import FormatError
from pocketmq.broker.store.log.segment import ENTRY_RECORD_SIZE, ENTRY_SIZE

PACK_SIZE_MAX = 256 * 1024 * 1024
"""A pack with so many bytes is finished."""

MAGIC = b"PMQPACK\n"
PACK_VERSION = 1
HEADER = struct.Struct(">8sI")

_ITEM_HEAD = struct.Struct(">BI")
_ITEM_SIZE_MAX = 64 * 1024 * 1024
"""No item is larger: a piece has one record of 17 MiB at the most, or less than that."""

DAMAGED = (
    "restore an earlier backup with --number, or another copy of this directory; the next backup "
    "into it does not mend what earlier ones hold, so begin a new directory"
)
"""The remedy for damage."""


class Run(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Records of one log that stand together in a pack.

    Attributes:
        pack: the number of the pack.
        at, size: bytes in the pack's file.
        crc: the CRC-32 of these bytes.
        position, offset: of the first record.
        end_position, end_offset: behind the last one.
        check: the `checksum` of the last record.
    """

    pack: int
    at: int
    size: int
    crc: int
    position: int
    offset: int
    end_position: int
    end_offset: int
    check: int


def pack_path(directory: Path, number: int) -> Path:
    """The file of a pack."""
    return directory / "packs" / f"{number:08d}.pack"


class PackWriter:
    """Writes the runs of one backup into new packs.

    Args:
        directory: the backup directory.
        first: the number of the first new pack.

    Attributes:
        size: bytes of records and index entries that were written.
    """

    def __init__(self, directory: Path, first: int) -> None:
        self._directory, self._next = directory, first
        self._handle = -1
        self._number = self._at = 0
        self.size = 0

    def append(self, piece: Piece, run: Run | None) -> tuple[Run, bool]:
        """Writes a piece.

        Args:
            piece: of a log.
            run: the last one of this log, if this backup writes it; the piece is joined to it if
                it stands at the end of the pack.

        Returns:
            the run that the piece is in, and whether that replaces the given one.

        Raises:
            OSError: the disk does not take it.
        """
        if self._handle < 0 or self._at >= PACK_SIZE_MAX:
            self._begin_pack()
        item = Records(
            piece.number, piece.epoch, piece.position, piece.offset, piece.timestamp,
            piece.entries, piece.data,
        )  # fmt: skip
        data = b"".join(encode_item(item))
        at = self._at
        _write(self._handle, data)
        self._at += len(data)
        self.size += len(piece.entries) + len(piece.data)
        joins = run is not None and (run.pack, run.at + run.size) == (self._number, at)
        last_size = int.from_bytes(piece.entries[-ENTRY_SIZE:][ENTRY_RECORD_SIZE], "big")
        count = len(piece.entries) // ENTRY_SIZE
        begun = run if run is not None and joins else None
        return (
            Run(
                self._number,
                begun.at if begun else at,
                (begun.size if begun else 0) + len(data),
                crc32(data, begun.crc if begun else 0),
                begun.position if begun else piece.position,
                begun.offset if begun else piece.offset,
                piece.position + len(piece.data),
                piece.offset + count,
                checksum(piece.data[-last_size:]),
            ),
            joins,
        )

    def _begin_pack(self) -> None:
        self.finish()
        self._number, self._next = self._next, self._next + 1
        path = pack_path(self._directory, self._number)
        path.parent.mkdir(exist_ok=True)
        self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        header = HEADER.pack(MAGIC, PACK_VERSION)
        _write(self._handle, header)
        self._at = len(header)

    def finish(self) -> None:
        """Brings everything to the disk.

        Raises:
            OSError: it may not be there.
        """
        handle, self._handle = self._handle, -1
        if handle < 0:
            return
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def close(self) -> None:
        """Gives up what is not finished."""
        handle, self._handle = self._handle, -1
        if handle >= 0:
            os.close(handle)


def _write(handle: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def read_run(directory: Path, number: int, run: Run) -> Iterator[Records]:
    """Yields the records of a run, piece by piece; the end of a damaged run is an error.

    Args:
        directory: the backup directory.
        number: of the log.
        run: of this log.

    Raises:
        FormatError: the pack is missing, or its bytes are not those that were written. What was
            yielded before is then not to be believed either.
    """
    path = pack_path(directory, run.pack)
    try:
        with path.open("rb") as file:
            magic, version = HEADER.unpack(file.read(HEADER.size).ljust(HEADER.size, b"\0"))
            if magic != MAGIC:
                raise _damaged(path, "it does not begin with the mark of a pack")
            if version != PACK_VERSION:
                raise FormatError(
                    path,
                    f"it is of format version {version}, this PocketMQ knows {PACK_VERSION}: use "
                    f"the version that wrote it",
                )
            file.seek(run.at)
            left, crc, position = run.size, 0, run.position
            while left:
                head = file.read(min(_ITEM_HEAD.size, left))
                if len(head) < _ITEM_HEAD.size:
                    raise _damaged(path, f"it ends at byte {run.at + run.size - left}")
                _, size = _ITEM_HEAD.unpack(head)
                left -= len(head)
                if size > min(left, _ITEM_SIZE_MAX):
                    raise _damaged(path, f"the item before byte {run.at + run.size - left}")
                body = file.read(size)
                left -= size
                crc = crc32(body, crc32(head, crc))
                if len(body) < size or (not left and crc != run.crc):
                    raise _damaged(path, f"of its bytes {run.at} to {run.at + run.size}")
                for item in decode_items(head + body):
                    if not isinstance(item, Records) or (item.number, item.position) != (
                        number,
                        position,
                    ):
                        raise _damaged(path, f"of its bytes {run.at} to {run.at + run.size}")
                    position += len(item.data)
                    yield item
    except FileNotFoundError:
        raise FormatError(path, f"it is missing: {DAMAGED}") from None


def _damaged(path: Path, where: str) -> FormatError:
    return FormatError(path, f"it is damaged ({where}): {DAMAGED}")
