"""RocketMQ's dialect of JSON: map keys may be bare integers or whole objects.

fastjson writes ``{0:"addr"}`` and ``{{"topic":"T",...}:5}`` and its readers expect just that, so
bodies with such maps cannot go through a standard encoder. See wire.md §4.1.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Iterator
from functools import cache
from heapq import merge
from itertools import islice, repeat
from operator import itemgetter
from typing import Any, TypeVar

import msgspec

from pocketmq.protocol.errors import ContentError

T = TypeVar("T")

_dumps = msgspec.json.Encoder().encode
RUN_LENGTH = 500
"""Entries of a map that `pieces` sorts in one go."""

DEPTH_MAX = 64
"""Levels of nesting that are read; no body of the protocol has more than six."""


def encode(value: Any, *, quote_keys: bool = False) -> bytes:
    """Encodes a body as fastjson does: keys sorted, nulls left out, keys of maps native.

    Args:
        value: structs, mappings, sequences and scalars.
        quote_keys: write integer keys in quotes, for peers that accept standard JSON only.
    """
    parts: list[bytes] = []
    _write(value, parts, quote_keys)
    return b"".join(parts)


def pieces(value: Any, *, quote_keys: bool = False) -> Iterator[bytes]:
    """Yields what `encode` returns piece by piece, for bodies that take too long in one go.

    Structs within structs, their maps and lists come entry by entry; any other value is one piece.
    """
    items: Iterable[tuple[bytes, Any]]
    if isinstance(value, msgspec.Struct):
        items = _fields(value)
        inner = pieces
    elif isinstance(value, dict):
        items = yield from _merged_items(value, quote_keys)
        inner = _whole
    elif isinstance(value, list) and value:
        between = b"["
        for item in value:
            yield between + encode(item, quote_keys=quote_keys)
            between = b","
        yield b"]"
        return
    else:
        yield encode(value, quote_keys=quote_keys)
        return
    between = b"{"
    for key, item in items:
        if item is not None:
            yield b"%b%b:" % (between, key)
            yield from inner(item, quote_keys=quote_keys)
            between = b","
    yield b"{}" if between == b"{" else b"}"


def _merged_items(
    value: dict[Any, Any], quote_keys: bool
) -> Generator[bytes, None, Iterable[tuple[bytes, Any]]]:
    """Returns the items of a map in their order; yields nothing, but often, if they are many."""
    if len(value) <= RUN_LENGTH or all(isinstance(k, int) for k in value):
        return _sorted_items(value, quote_keys)
    rest, runs = iter(value.items()), []
    while run := dict(islice(rest, RUN_LENGTH)):
        runs.append(_sorted_items(run, quote_keys))
        yield from repeat(b"", RUN_LENGTH)
    return merge(*runs, key=itemgetter(0))


def _whole(value: Any, *, quote_keys: bool = False) -> Iterator[bytes]:
    yield encode(value, quote_keys=quote_keys)


def _write(value: Any, parts: list[bytes], quote_keys: bool) -> None:
    if isinstance(value, msgspec.Struct):
        _write_object(_fields(value), parts, quote_keys)
    elif isinstance(value, dict):
        _write_object(_sorted_items(value, quote_keys), parts, quote_keys)
    elif isinstance(value, (list, tuple, set, frozenset)):
        parts.append(b"[")
        for i, item in enumerate(value):
            if i:
                parts.append(b",")
            _write(item, parts, quote_keys)
        parts.append(b"]")
    else:
        parts.append(_dumps(value))


@cache
def _layout(kind: type[msgspec.Struct]) -> list[tuple[bytes, str]]:
    pairs = zip(kind.__struct_encode_fields__, kind.__struct_fields__, strict=True)
    return [(_dumps(name), attribute) for name, attribute in sorted(pairs)]


def _fields(value: msgspec.Struct) -> list[tuple[bytes, Any]]:
    return [(name, getattr(value, attribute)) for name, attribute in _layout(type(value))]


def _sorted_items(value: dict[Any, Any], quote_keys: bool) -> list[tuple[bytes, Any]]:
    if all(isinstance(k, int) for k in value):
        return [(_key(k, quote_keys), value[k]) for k in sorted(value)]
    return sorted(((_key(k, quote_keys), v) for k, v in value.items()), key=itemgetter(0))


def _write_object(items: list[tuple[bytes, Any]], parts: list[bytes], quote_keys: bool) -> None:
    parts.append(b"{")
    first = True
    for key, item in items:
        if item is None:
            continue
        if not first:
            parts.append(b",")
        first = False
        parts.append(key)
        parts.append(b":")
        _write(item, parts, quote_keys)
    parts.append(b"}")


def _key(key: Any, quote_keys: bool) -> bytes:
    if isinstance(key, str):
        return _dumps(key)
    if isinstance(key, int):
        return b'"%d"' % key if quote_keys else b"%d" % key
    return encode(key, quote_keys=quote_keys)


_TOKEN = re.compile(rb'\s*("[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],:]|[^\s{}\[\],:"]+)', re.DOTALL)


def standard(data: bytes) -> bytes:
    """Rewrites fastjson's dialect as standard JSON: integer and object keys become strings.

    An object key becomes the string of its own JSON text.

    Raises:
        ContentError: the text is not JSON in this dialect.
    """
    reader = _Reader(data)
    out = reader.value(0)
    if reader.token:
        raise ContentError("JSON body: something follows the value")
    return out


class _Reader:
    """Reads tokens one by one, and stops at the first wrong one."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position, self._end = 0, len(data.rstrip())
        self.token = b""
        self._advance()

    def _advance(self) -> None:
        if self._position >= self._end:
            self.token = b""
            return
        match = _TOKEN.match(self._data, self._position, self._end)
        if match is None:
            raise ContentError(f"JSON body: unexpected character at byte {self._position}")
        self.token = match.group(1)
        self._position = match.end()

    def _expect(self, token: bytes) -> None:
        if self.token != token:
            raise ContentError(
                f"JSON body: {token.decode()!r} expected before byte {self._position}"
            )
        self._advance()

    def value(self, depth: int) -> bytes:
        """Returns the value that begins with the current token, as standard JSON."""
        token = self.token
        if depth > DEPTH_MAX:
            raise ContentError(f"JSON body: nested deeper than {DEPTH_MAX}")
        if not token:
            raise ContentError("JSON body: it ends too early")
        if token in (b"}", b"]", b",", b":"):
            raise ContentError(f"JSON body: unexpected {token.decode()!r}")
        self._advance()
        if token == b"{":
            return b"{" + self._items(depth, b"}") + b"}"
        if token == b"[":
            return b"[" + self._items(depth, b"]") + b"]"
        return token

    def _items(self, depth: int, close: bytes) -> bytes:
        items: list[bytes] = []
        while self.token != close:
            if items:
                self._expect(b",")
            items.append(self._member(depth) if close == b"}" else self.value(depth + 1))
        self._advance()
        return b",".join(items)

    def _member(self, depth: int) -> bytes:
        key = self.value(depth + 1)
        self._expect(b":")
        if key[:1] != b'"':
            try:
                key = _dumps(key.decode())
            except UnicodeDecodeError as e:
                raise ContentError(f"JSON body: a key is not UTF-8: {e}") from e
        return key + b":" + self.value(depth + 1)


_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def decode(data: bytes, cls: type[T], *, is_standard: bool = False) -> T:
    """Reads a body, in standard JSON or fastjson's dialect, into a type; null means absent.

    Args:
        data: the body.
        cls: the type.
        is_standard: refuse the dialect and nulls where the type has none.

    Raises:
        ContentError: it is not JSON, or does not fit the type.
    """
    try:
        return msgspec.json.decode(data, type=cls, strict=False)
    except _UNREADABLE as e:
        if is_standard:
            raise ContentError(f"the body is no {cls.__name__}: {e}") from e
        # The dialect and nulls are rare and legal: the slower reading allows them.
    try:
        value = msgspec.json.decode(standard(data))
        return msgspec.convert(_without_nulls(value), cls, strict=False)
    except _UNREADABLE as e:
        raise ContentError(f"the body is no {cls.__name__}: {e}") from e


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_nulls(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
