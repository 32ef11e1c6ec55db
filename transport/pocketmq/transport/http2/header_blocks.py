"""Header blocks: requests are decoded and checked, answers encoded without state."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from hpack import Decoder, HPACKError, OversizedHeaderListError

from pocketmq.transport.http2.frames import ConnectionFault, ErrorCode, StreamFault

CACHED_MAX = 32
"""Decoded blocks that a connection remembers."""

CACHED_SIZE_MAX = 512
"""Longer blocks are decoded each time."""

_FORBIDDEN = frozenset(
    {b"connection", b"proxy-connection", b"keep-alive", b"transfer-encoding", b"upgrade"}
)
_PSEUDO = frozenset({b":method", b":scheme", b":path", b":authority"})
_NEEDED = (b":method", b":scheme", b":path")

Fields = list[tuple[bytes, bytes]]

SHARED_MAX, SHARED_SIZE_MAX = 512, 128
"""Fields that the tables of all connections share, and how long one of them may be."""

_shared: dict[tuple[bytes, bytes], tuple[bytes, bytes]] = {}


class TableEntries(list[tuple[bytes, bytes]]):
    """The entries of a connection's table: smaller than a deque, and shared where they are equal.

    A table has at most 128 entries, so that a new first one costs little.
    """

    __slots__ = ()

    def appendleft(self, entry: tuple[bytes, bytes]) -> None:
        """Adds the newest entry."""
        known = _shared.get(entry)
        if known is None:
            known = (bytes(entry[0]), bytes(entry[1]))
            if len(_shared) < SHARED_MAX and len(known[0]) + len(known[1]) <= SHARED_SIZE_MAX:
                _shared[known] = known
        self.insert(0, known)


class BlockDecoder:
    """Decodes the header blocks of one connection.

    A block of nothing but references to the tables changes no table, and means the same until a
    table changes: such blocks are remembered until then.

    Args:
        size_max: of a header list.
    """

    __slots__ = ("_cache", "_decoder", "_size_max")

    def __init__(self, size_max: int) -> None:
        self._size_max = size_max
        self._decoder: Decoder | None = None
        self._cache: dict[bytes, Fields] = {}

    def remembers(self, block: bytes) -> bool:
        """Whether the block will mean the same list of fields when it comes again."""
        return block in self._cache

    def decode(self, block: bytes) -> Fields:
        """Decodes a block; the caller does not change the list.

        Raises:
            ConnectionFault: the block breaks HPACK's rules, or its fields are too large.
        """
        fields = self._cache.get(block)
        if fields is not None:
            return fields
        if self._decoder is None:
            self._decoder = Decoder(self._size_max)
            self._decoder.header_table.dynamic_entries = cast(Any, TableEntries())
        try:
            fields = [(bytes(n), bytes(v)) for n, v in self._decoder.decode(block, raw=True)]
        except OversizedHeaderListError:
            raise ConnectionFault(
                ErrorCode.ENHANCE_YOUR_CALM, f"a header list larger than {self._size_max} bytes"
            ) from None
        except (HPACKError, IndexError, UnicodeDecodeError, ValueError) as e:
            raise ConnectionFault(ErrorCode.COMPRESSION_ERROR, f"bad header block: {e}") from None
        if not changes_no_table(block):
            self._cache.clear()
        elif len(block) <= CACHED_SIZE_MAX and len(self._cache) < CACHED_MAX:
            self._cache[block] = fields
        return fields


def changes_no_table(block: bytes) -> bool:
    """Whether each byte is a whole reference to a table: the common case, and cheap to see."""
    return bool(block) and min(block) > 0x80 and max(block) < 0xFF


def encode_block(fields: Iterable[tuple[str, str]]) -> bytes:
    """Encodes fields as literals that enter no table, so that the bytes may be used again."""
    parts = []
    for name, value in fields:
        parts += [b"\x00", _text(name.encode()), _text(value.encode())]
    return b"".join(parts)


def _text(value: bytes) -> bytes:
    size = len(value)
    if size < 127:
        return bytes((size,)) + value
    size -= 127
    encoded = bytearray(b"\x7f")
    while size >= 128:
        encoded.append(size & 0x7F | 0x80)
        size >>= 7
    encoded.append(size)
    return bytes(encoded) + value


def check_request(fields: Fields) -> int | None:
    """Checks the fields of a request (RFC 9113, section 8), and returns its content-length.

    Raises:
        StreamFault: they are malformed.
    """
    pseudo: set[bytes] = set()
    is_regular = False
    length: int | None = None
    for name, value in fields:
        if name[:1] == b":":
            if is_regular or name not in _PSEUDO or name in pseudo:
                raise malformed(f"the field {name!r} is unknown, late or repeated")
            if name == b":path" and not value:
                raise malformed("the path is empty")
            pseudo.add(name)
            continue
        is_regular = True
        _check_field(name, value)
        if name == b"content-length":
            if not value.isdigit() or len(value) > 19:
                raise malformed("content-length is no number")
            length = int(value)
    for name in _NEEDED:
        if name not in pseudo:
            raise malformed(f"the field {name.decode()} is missing")
    return length


def check_trailers(fields: Fields) -> None:
    """Checks the fields after a request.

    Raises:
        StreamFault: they are malformed.
    """
    for name, value in fields:
        if name[:1] == b":":
            raise malformed("trailers have no pseudo fields")
        _check_field(name, value)


def _check_field(name: bytes, value: bytes) -> None:
    if not name or name != name.lower():
        raise malformed(f"the field {name!r} is not in lower case")
    if name in _FORBIDDEN or (name == b"te" and value != b"trailers"):
        raise malformed(f"the field {name.decode()} does not belong into HTTP/2")
    if b"\n" in value or b"\r" in value or b"\0" in value:
        raise malformed(f"the value of {name!r} has line breaks or zeros")


def malformed(text: str) -> StreamFault:
    """The fault of a malformed request."""
    return StreamFault(ErrorCode.PROTOCOL_ERROR, text)
