"""RocketMQ's dialect of JSON: map keys may be bare integers or whole objects.

fastjson writes ``{0:"addr"}`` and ``{{"topic":"T",...}:5}`` and its readers expect just that, so
bodies with such maps cannot go through a standard encoder. See wire.md §4.1.
"""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec

from pocketmq.protocol.errors import ContentError

T = TypeVar("T")

_dumps = msgspec.json.Encoder().encode
DEPTH_MAX = 64
"""Nesting that the reader follows; no body of the protocol is deeper than six."""


def encode(value: Any, *, quote_keys: bool = False) -> bytes:
    """Writes a body as fastjson does: keys sorted, nulls left out, keys of maps native.

    Args:
        value: structs, mappings, sequences and scalars.
        quote_keys: write integer keys in quotes, for peers that accept standard JSON only.
    """
    parts: list[bytes] = []
    _write(value, parts, quote_keys)
    return b"".join(parts)


def _write(value: Any, parts: list[bytes], quote_keys: bool) -> None:
    if isinstance(value, msgspec.Struct):
        pairs = zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True)
        _write_object(
            [(_dumps(name), getattr(value, attribute)) for name, attribute in sorted(pairs)],
            parts,
            quote_keys,
        )
    elif isinstance(value, dict):
        items = [(_key(k, quote_keys), v) for k, v in value.items()]
        _write_object(sorted(items, key=lambda item: item[0]), parts, quote_keys)
    elif isinstance(value, (list, tuple, set, frozenset)):
        parts.append(b"[")
        for i, item in enumerate(value):
            if i:
                parts.append(b",")
            _write(item, parts, quote_keys)
        parts.append(b"]")
    else:
        parts.append(_dumps(value))


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


_TOKEN = re.compile(rb'\s*("(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+)', re.DOTALL)


def standard(data: bytes) -> bytes:
    """Standard JSON with the same content: integer and object keys become strings.

    An object key becomes the string of its own JSON text.

    Raises:
        ContentError: the text is not JSON in this dialect.
    """
    tokens = _tokens(data)
    out, position = _value(tokens, 0, 0)
    if position != len(tokens):
        raise ContentError("JSON body: something follows the value")
    return out


def _tokens(data: bytes) -> list[bytes]:
    tokens, position, end = [], 0, len(data.rstrip())
    while position < end:
        match = _TOKEN.match(data, position)
        if match is None:
            raise ContentError(f"JSON body: unexpected character at byte {position}")
        tokens.append(match.group(1))
        position = match.end()
    return tokens


def _value(tokens: list[bytes], at: int, depth: int) -> tuple[bytes, int]:
    if depth > DEPTH_MAX:
        raise ContentError(f"JSON body: nested deeper than {DEPTH_MAX}")
    if at >= len(tokens):
        raise ContentError("JSON body: it ends too early")
    token = tokens[at]
    if token == b"{":
        return _collection(tokens, at + 1, depth, b"}")
    if token == b"[":
        return _collection(tokens, at + 1, depth, b"]")
    if token in b"}],:":
        raise ContentError(f"JSON body: unexpected {token.decode()!r}")
    return token, at + 1


def _collection(tokens: list[bytes], at: int, depth: int, close: bytes) -> tuple[bytes, int]:
    items: list[bytes] = []
    while _peek(tokens, at) != close:
        if items:
            at = _expect(tokens, at, b",")
        if close == b"}":
            key, at = _value(tokens, at, depth + 1)
            at = _expect(tokens, at, b":")
            value, at = _value(tokens, at, depth + 1)
            items.append((key if key[:1] == b'"' else _dumps(key.decode())) + b":" + value)
        else:
            value, at = _value(tokens, at, depth + 1)
            items.append(value)
    opening = b"{" if close == b"}" else b"["
    return opening + b",".join(items) + close, at + 1


def _peek(tokens: list[bytes], at: int) -> bytes:
    if at >= len(tokens):
        raise ContentError("JSON body: it ends too early")
    return tokens[at]


def _expect(tokens: list[bytes], at: int, token: bytes) -> int:
    if _peek(tokens, at) != token:
        raise ContentError(f"JSON body: {token.decode()!r} expected, not {tokens[at].decode()!r}")
    return at + 1


def decode(data: bytes, cls: type[T]) -> T:
    """Reads a body, standard or in fastjson's dialect, as a type.

    Raises:
        ContentError: it is not JSON, or does not fit the type.
    """
    try:
        return msgspec.json.decode(data, type=cls, strict=False)
    except msgspec.ValidationError as e:
        raise ContentError(f"the body is no {cls.__name__}: {e}") from e
    except msgspec.DecodeError:
        pass
    try:
        return msgspec.json.decode(standard(data), type=cls, strict=False)
    except (msgspec.DecodeError, UnicodeDecodeError) as e:
        raise ContentError(f"the body is no {cls.__name__}: {e}") from e
