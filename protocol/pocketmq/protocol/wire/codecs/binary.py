"""Header codec 1: RocketMQ's binary header (`remoting/protocol/RocketMQSerializable`).

``int16 code | int8 language | int16 version | int32 opaque | int32 flag |
int32 remarkLen | remark | int32 extLen | (int16 keyLen | key | int32 valueLen | value)*``
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from pocketmq.protocol.errors import FrameError, UsageError
from pocketmq.protocol.wire.command import Codec, Command
from pocketmq.protocol.wire.header import Header, text_values, wire_getter
from pocketmq.protocol.wire.header_layout import HeaderLayout, LaidOutFields

_CODEC = int(Codec.BINARY)
_BEFORE_REMARK = ">hbhii"
_FIXED = struct.Struct(_BEFORE_REMARK + "i")
_INT = struct.Struct(">i")
_SHORT = struct.Struct(">h")
assert _FIXED.size == 17

CODE_MAX = 0x7FFF
"""The code has 16 bits: RocketMQ's codes from 200050 on need another codec."""

NAME_SIZE_MAX = 0x7FFF
"""Bytes of a field's name: RocketMQ counts them in 16 bits with a sign."""


_LAYOUTS: dict[int, HeaderLayout] = {}
_LAYOUT_SIZE_MAX = 2048
"""Bytes of the longest header whose layout is kept; one layout of each size: a few megabytes."""

_MISSES_MAX = 16
"""After more headers of its size that had another form, a layout makes room for theirs."""


def decode(header: bytes, body: bytes) -> Command:
    """Reads a binary header.

    Raises:
        FrameError: a length points outside the header or text is not UTF-8.
    """
    layout = _LAYOUTS.get(len(header))
    if layout is not None:
        # RocketMQ's own clients send this codec, and one client's requests differ in few values.
        parts = layout.unpack(header)
        if parts[5::2] == layout.constant:
            code, language, version, opaque, flag = parts[:5]
            try:
                values = [value.decode() for value in parts[6::2]]
            except UnicodeDecodeError as e:
                raise _unreadable(e) from e
            fields = LaidOutFields(layout, values)
            return Command(
                code, opaque, flag, body, None, language, version, _CODEC, None, None, fields
            )
    return _decode_any(header, body)


def _unreadable(error: Exception) -> FrameError:
    return FrameError(f"the binary header cannot be read: {error}")


def _decode_any(header: bytes, body: bytes) -> Command:
    try:
        code, language, version, opaque, flag, remark_size = _FIXED.unpack_from(header)
        position = _FIXED.size
        remark = None
        if remark_size > 0:
            remark = _slice(header, position, remark_size).decode()
            position += remark_size
        (ext_size,) = _INT.unpack_from(header, position)
        position += 4
        fields, spans = _walk_fields(header, position, ext_size) if ext_size > 0 else ({}, [])
    except (struct.error, UnicodeDecodeError) as e:
        raise _unreadable(e) from e
    is_whole = position + ext_size == len(header) and len(spans) == len(fields) > 0
    if is_whole and not remark and len(header) <= _LAYOUT_SIZE_MAX:
        _learn(header, fields, spans)
    return Command(code, opaque, flag, body, remark, language, version, _CODEC, None, None, fields)


def _learn(header: bytes, fields: dict[str, str], spans: list[tuple[int, int]]) -> None:
    """Remembers the layout of a header, or widens the layout of its size so that it fits both."""
    known = _LAYOUTS.get(len(header))
    layout = HeaderLayout(_BEFORE_REMARK, header, fields, spans, ()) if known is None else None
    if known is not None:
        layout = known.widened(_BEFORE_REMARK, header, fields, spans)
        if layout is None:
            known.misses += 1
            if known.misses > _MISSES_MAX:
                del _LAYOUTS[len(header)]
    if layout is not None:
        _LAYOUTS[len(header)] = layout


def _walk_fields(
    header: bytes, position: int, size: int
) -> tuple[dict[str, str], list[tuple[int, int]]]:
    """Reads the fields of a header one by one, and notes where each value begins and ends."""
    fields: dict[str, str] = {}
    spans: list[tuple[int, int]] = []
    end = position + size
    data = _slice(header, 0, end)
    while position < end:
        (name_size,) = _SHORT.unpack_from(data, position)
        name = _slice(data, position + 2, name_size)
        position += 2 + name_size
        (value_size,) = _INT.unpack_from(data, position)
        value = _slice(data, position + 4, value_size)
        spans.append((position + 4, position + 4 + value_size))
        position += 4 + value_size
        if value_size:  # RocketMQ reads an empty value back as null
            fields[name.decode()] = value.decode()
    return fields, spans


def _slice(data: bytes, position: int, size: int) -> bytes:
    if size < 0 or position + size > len(data):
        raise FrameError(
            f"the binary header has {len(data)} bytes, a part of {size} is announced at {position}"
        )
    return data[position : position + size]


def encode(command: Command) -> bytes:
    """Writes a binary header.

    Raises:
        UsageError: the code, or the length of a field's name, does not fit in 16 bits.
    """
    if not -CODE_MAX <= command.code <= CODE_MAX:
        raise UsageError(f"code {command.code} needs the JSON header: the binary one has 16 bits")
    if command.header is not None and not command.extra:
        parts = _header_parts(command.header)
    else:
        parts = []
        for key, text in sorted(text_values(command.fields).items()):
            v = text.encode()
            parts += (_NAMES.get(key) or _name(key), _INT.pack(len(v)), v)
    ext = b"".join(parts)
    remark = command.remark.encode() if command.remark else b""
    fixed = _FIXED.pack(
        command.code, command.language, command.version, command.opaque, command.flag, len(remark)
    )
    return b"".join((fixed, remark, _INT.pack(len(ext)), ext))


def _header_parts(header: Header) -> list[bytes]:
    """Encodes the fields of a typed header; all answers to RocketMQ's clients pass here."""
    names, values = _getter(header.__class__)
    parts: list[bytes] = []
    for name, value in zip(names, values(header), strict=False):
        if value is None:
            continue
        if value.__class__ is str:
            v = value.encode()
        elif value is True:
            v = b"true"
        elif value is False:
            v = b"false"
        else:
            v = b"%d" % value
        parts += (name, _INT.pack(len(v)), v)
    return parts


@lru_cache(maxsize=512)
def _getter(cls: type[Header]) -> tuple[tuple[bytes, ...], Callable[[Header], tuple[Any, ...]]]:
    names, values = wire_getter(cls)
    return tuple(_name(name) for name in names), values


_NAMES: dict[str, bytes] = {}
_NAMES_MAX = 1024


def _name(key: str) -> bytes:
    """Encodes a field's name with its length; the result is cached."""
    name = key.encode()
    if len(name) > NAME_SIZE_MAX:
        raise UsageError(f"a field name of {len(name)} bytes, the limit is {NAME_SIZE_MAX}")
    encoded = _SHORT.pack(len(name)) + name
    if len(_NAMES) < _NAMES_MAX:
        _NAMES[key] = encoded
    return encoded
