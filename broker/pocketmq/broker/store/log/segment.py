"""Segments: a queue log is cut into pairs of files, records (`.log`) and their index (`.idx`).

Later a third one finds messages by their keys (`.keys`, see `key_file`). All begin with the same
kind of header; a record's position counts from the beginning of the queue log, and ``position -
base_position + HEADER_SIZE`` in the file.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import NamedTuple

from isal.isal_zlib import crc32

from pocketmq.broker.store.disk.errors import FormatError, VersionError

FORMAT_VERSION = 1
LOG_MAGIC = b"PMQLOG\r\n"
INDEX_MAGIC = b"PMQIDX\r\n"
KEYS_MAGIC = b"PMQKEY\r\n"

_HEADER = struct.Struct(">8sHxxIqqqq")
_CRC = struct.Struct(">I")
HEADER_SIZE = 64
assert _HEADER.size + _CRC.size <= HEADER_SIZE

ENTRY = struct.Struct(">qiq")
"""One index entry: physical offset, record size, tags code (RocketMQ's consume queue unit)."""

ENTRY_SIZE = ENTRY.size
assert ENTRY_SIZE == 20

ENTRY_RECORD_SIZE = slice(8, 12)
"""Where in an entry the record's size stands."""

POSITION_BITS = 40
POSITION_MASK = (1 << POSITION_BITS) - 1
LOG_SIZE_MAX = 1 << POSITION_BITS - 1
"""Bytes of records that one queue may hold at a time; over its life it may take any amount.

Physical offsets count positions modulo twice this, so that they are unambiguous among the records
that retention has left.
"""
LOG_NUMBER_MAX = (1 << 63 - POSITION_BITS) - 1


def physical_offset(log_number: int, position: int) -> int:
    """Returns the protocol's 64-bit physical offset: the log's number, then the position in it.

    The place is counted modulo 2^40, which is unambiguous among the records that there are.
    """
    return log_number << POSITION_BITS | position & POSITION_MASK


def log_number_of(offset: int) -> int:
    """Returns the number of the queue log that a physical offset points into."""
    return offset >> POSITION_BITS


class Segment(NamedTuple):
    """One pair of files, by the header that both begin with.

    Attributes:
        stem: the files' path without its ending, as text: there are many segments, and a `Path`
            takes ten times the memory.
        log_number: of the queue log.
        base_position: position of the first record in the queue log, bytes.
        base_offset: queue offset of the first record.
        created_ms: when the segment was created.
    """

    stem: str
    log_number: int
    base_position: int
    base_offset: int
    created_ms: int

    @property
    def log_file(self) -> str:
        """The path of the file of records, as text, which costs less than a `Path`."""
        return f"{self.stem}.log"

    @property
    def index_file(self) -> str:
        """The path of the file of index entries, as text."""
        return f"{self.stem}.idx"

    @property
    def log_path(self) -> Path:
        """The file of records."""
        return Path(self.log_file)

    @property
    def index_path(self) -> Path:
        """The file of index entries."""
        return Path(self.index_file)

    @property
    def keys_path(self) -> Path:
        """The file by which messages are found by their keys; made later, or not at all."""
        return Path(f"{self.stem}.keys")

    def header(self, magic: bytes) -> bytes:
        """Encodes the header that each of the files begins with."""
        fixed = _HEADER.pack(
            magic,
            FORMAT_VERSION,
            0,
            self.log_number,
            self.base_position,
            self.base_offset,
            self.created_ms,
        )
        return (fixed + _CRC.pack(crc32(fixed))).ljust(HEADER_SIZE, b"\0")

    def position_of(self, physical: int) -> int:
        """Returns the position of a record of this segment from its physical offset."""
        return self.base_position + ((physical - self.base_position) & POSITION_MASK)


def segment_stem(directory: Path | str, base_position: int) -> str:
    """Returns the path, without its ending, of the segment that begins at a position."""
    return f"{directory}/{base_position:020d}"


def is_unfinished(header: bytes) -> bool:
    """Whether a crash came before a segment's header was on the disk, so that it holds nothing."""
    return len(header) < HEADER_SIZE or not header.strip(b"\0")


def read_segment(path: Path | str, header: bytes, magic: bytes = LOG_MAGIC) -> Segment:
    """Reads a segment from the header of its `.log` file, or of one with another magic.

    Raises:
        FormatError: magic, then version (a VersionError), then checksum, each with its own words.
    """
    if len(header) < HEADER_SIZE or header[:8] != magic:
        kind = "log" if magic == LOG_MAGIC else "index"
        raise FormatError(Path(path), f"it does not begin with the mark of a PocketMQ queue {kind}")
    _, version, _, number, base_position, base_offset, created_ms = _HEADER.unpack_from(header)
    if version != FORMAT_VERSION:
        raise VersionError(
            Path(path),
            f"it is of format version {version}, this broker knows {FORMAT_VERSION}: "
            f"run the version of PocketMQ that wrote it",
        )
    (crc,) = _CRC.unpack_from(header, _HEADER.size)
    if crc != crc32(header[: _HEADER.size]):
        raise FormatError(Path(path), "the checksum of its header is wrong: the file is damaged")
    stem = os.path.splitext(path)[0]
    if os.path.basename(stem) != f"{base_position:020d}":
        raise FormatError(
            Path(path),
            f"its header says that it begins at position {base_position}: it was renamed, give it "
            f"its name back",
        )
    return Segment(stem, number, base_position, base_offset, created_ms)


def has_one_segment(directory: Path) -> bool:
    """Whether the directory of a log holds a single segment; no file is opened for this."""
    try:
        with os.scandir(directory) as entries:
            return sum(entry.name.endswith(".log") for entry in entries) == 1
    except FileNotFoundError:
        return False
