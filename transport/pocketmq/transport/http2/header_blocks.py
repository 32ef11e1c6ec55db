"""Header blocks: requests are decoded and checked, answers encoded without state."""

from __future__ import annotations

from collections.abc import Iterable
from sys import intern
from typing import Any, cast

from hpack import HPACKDecodingError, HPACKError, OversizedHeaderListError
from hpack.hpack import decode_integer
from hpack.huffman_table import decode_huffman
from hpack.table import HeaderTable

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

REPEATED_MAX = 1024
"""Fields that came by reference and are known to be sound; beyond them all are forgotten."""

repeated: dict[tuple[bytes, bytes], tuple[str, str] | None] = {}
"""Fields that came by reference, so that they come again: their texts once they were checked."""


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


_STATIC = HeaderTable.STATIC_TABLE
_FIRST_DYNAMIC = len(_STATIC) + 1
_INDEX_MAX = 0x7F
_LITERAL_ENTERED, _TABLE_SIZE = 0x40, 0x20
_HUFFMAN = 0x80


class Table(HeaderTable):
    """The table of a connection, and the loop that decodes blocks by it (RFC 7541, section 6).

    The library's own loop makes a view and an object of each field, which is most of what a call
    of gRPC costs with fields that differ from call to call, as signatures do.
    """

    def __init__(self) -> None:
        super().__init__()
        self.dynamic_entries = cast(Any, TableEntries())
        self._size_max = self.maxsize

    def fields_of(self, block: bytes, size_max: int) -> Fields:
        """Decodes a block.

        Args:
            block: a whole one.
            size_max: of the list of fields, by RFC 9113's count.

        Raises:
            HPACKError, IndexError: it breaks the rules.
        """
        fields: Fields = []
        entries, at, end, size = self.dynamic_entries, 0, len(block), 0
        while at < end:
            byte = block[at]
            if byte >= 0x80:
                index, at = byte & _INDEX_MAX, at + 1
                if index == _INDEX_MAX:
                    index, used = decode_integer(block[at - 1 :], 7)
                    at += used - 1
                if index >= _FIRST_DYNAMIC:
                    field = entries[index - _FIRST_DYNAMIC]
                    if field not in repeated:
                        _note_repeated(field)
                elif index:
                    field = _STATIC[index - 1]
                else:
                    raise HPACKDecodingError("a reference to nothing")
            elif byte & 0xE0 == _TABLE_SIZE:
                if fields:
                    raise HPACKDecodingError("the table's size changes behind a field")
                new_size, used = decode_integer(block[at:], 5)
                if new_size > self._size_max:
                    raise HPACKDecodingError(f"the table's size is {new_size}")
                self.maxsize = new_size
                at += used
                continue
            else:
                field, at = self._literal(block, at, byte)
            fields.append(field)
            size += len(field[0]) + len(field[1]) + 32
            if size > size_max:
                raise OversizedHeaderListError(f"more than {size_max} bytes")
        return fields

    def _literal(self, block: bytes, at: int, byte: int) -> tuple[tuple[bytes, bytes], int]:
        """A field that stands in the block, and where the next one begins."""
        is_entered = byte & _LITERAL_ENTERED
        index, used = decode_integer(block[at : at + 10], 6 if is_entered else 4)
        at += used
        if index >= _FIRST_DYNAMIC:
            name = self.dynamic_entries[index - _FIRST_DYNAMIC][0]
        elif index:
            name = _STATIC[index - 1][0]
        else:
            name, at = _string(block, at)
        value, at = _string(block, at)
        if is_entered:
            self.add(name, value)
        return (name, value), at


def _note_repeated(field: tuple[bytes, bytes]) -> None:
    if len(field[0]) + len(field[1]) <= SHARED_SIZE_MAX:
        if len(repeated) >= REPEATED_MAX:
            repeated.clear()
        repeated[field] = None


def _string(block: bytes, at: int) -> tuple[bytes, int]:
    """A string of a block, and where it ends."""
    first = block[at]
    length = first & 0x7F
    if length == 0x7F:
        length, used = decode_integer(block[at : at + 10], 7)
    else:
        used = 1
    begin = at + used
    end = begin + length
    if end > len(block):
        raise HPACKDecodingError("a string is cut off")
    value = block[begin:end]
    return decode_huffman(value) if first & _HUFFMAN else value, end


class BlockDecoder:
    """Decodes the header blocks of one connection.

    A block of nothing but references to the tables changes no table, and means the same until a
    table changes: such blocks are remembered until then.

    Args:
        size_max: of a header list.
    """

    __slots__ = ("_cache", "_size_max", "_table")

    def __init__(self, size_max: int) -> None:
        self._size_max = size_max
        self._table: Table | None = None
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
        if self._table is None:
            self._table = Table()
        try:
            fields = self._table.fields_of(bytes(block), self._size_max)
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
    for field in fields:
        if repeated.get(field) is not None:
            is_regular = True
            continue
        name, value = field
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
        elif field in repeated:
            repeated[field] = intern(name.decode("latin-1")), intern(value.decode("latin-1"))
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
