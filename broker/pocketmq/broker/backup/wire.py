"""What a broker and a backup of it tell each other about logs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
from isal.isal_zlib import crc32

from pocketmq.protocol.errors import ContentError

T = TypeVar("T")

WANTS_MAX = 256
"""Logs of which one request may ask for records."""

ENDS_TABLE = "ends"
"""The name under which a snapshot lists its logs, as rows of `LogEnd`."""

FROM_BEGINNING = -1
"""The offset of a want that begins with the oldest record."""

Page = list[tuple[str, list[tuple[Any, ...]]]]
"""Rows of tables by name, in the order in which they were read."""


class LogEnd(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A log as a snapshot has it.

    Attributes:
        number: of the log, which no other log of the broker ever had.
        begin: the position of the oldest record.
        position, offset: behind the last record; a position of -1 says that the log is damaged.
        timestamp: the store time of the last record.
    """

    number: int
    topic: str
    queue_id: int
    begin: int
    position: int
    offset: int
    timestamp: int

    @property
    def row(self) -> tuple[Any, ...]:
        """The fields in order."""
        return msgspec.structs.astuple(self)


class Want(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Which records of a log a backup lacks.

    Attributes:
        number: of the log.
        position, offset: of the first one.
        end: the position behind the last one.
        check: the `checksum` of the record before the first one, which the backup has; the log must
            have the same record there. None if the backup has nothing.
    """

    number: int
    position: int
    offset: int
    end: int
    check: int | None


class Piece(msgspec.Struct, frozen=True, array_like=True, tag="piece", gc=False):
    """Records of a log, back to back; see `replication.items.Records`."""

    number: int
    epoch: int
    position: int
    offset: int
    timestamp: int
    entries: bytes
    data: bytes


class Differs(msgspec.Struct, frozen=True, array_like=True, tag="differs", gc=False):
    """The log has another record before the one that was asked for, or none."""

    number: int


class Gone(msgspec.Struct, frozen=True, array_like=True, tag="gone", gc=False):
    """The log was deleted after the snapshot."""

    number: int


class Damaged(msgspec.Struct, frozen=True, array_like=True, tag="damaged", gc=False):
    """The log cannot be read, and why."""

    number: int
    reason: str


Part = Piece | Differs | Gone | Damaged

_encode = msgspec.msgpack.Encoder().encode
_pages = msgspec.msgpack.Decoder(Page)
_wants = msgspec.msgpack.Decoder(list[Want])
_parts = msgspec.msgpack.Decoder(list[Part])


def checksum(record: bytes | memoryview) -> int:
    """The checksum by which two copies of a record are compared."""
    return int(crc32(record))


def encode_page(page: Page) -> bytes:
    """Encodes rows of tables."""
    return _encode(page)


def decode_page(body: bytes | memoryview) -> Page:
    """Decodes rows of tables.

    Raises:
        ContentError: they are none.
    """
    return _decoded(_pages, body)


def encode_wants(wants: Sequence[Want]) -> bytes:
    """Encodes what a backup lacks."""
    return _encode(wants)


def decode_wants(body: bytes | memoryview) -> list[Want]:
    """Decodes what a backup lacks.

    Raises:
        ContentError: it cannot be read, or is of too many logs.
    """
    wants = _decoded(_wants, body)
    if len(wants) > WANTS_MAX:
        raise ContentError(f"{len(wants)} logs are asked for, at most {WANTS_MAX} may be")
    return wants


def encode_parts(parts: Sequence[Part]) -> bytes:
    """Encodes what a broker answers."""
    return _encode(parts)


def decode_parts(body: bytes | memoryview) -> list[Part]:
    """Decodes what a broker answers.

    Raises:
        ContentError: it cannot be read.
    """
    return _decoded(_parts, body)


def _decoded(decoder: msgspec.msgpack.Decoder[T], body: bytes | memoryview) -> T:
    try:
        return decoder.decode(body)
    except msgspec.MsgspecError as e:
        raise ContentError(f"what a backup was told cannot be read: {e}") from e
