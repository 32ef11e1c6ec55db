"""Header codec 1: RocketMQ's binary header (`remoting/protocol/RocketMQSerializable`).

``int16 code | int8 language | int16 version | int32 opaque | int32 flag |
int32 remarkLen | remark | int32 extLen | (int16 keyLen | key | int32 valueLen | value)*``
"""

from __future__ import annotations

import struct

from pocketmq.protocol.command import Codec, Command
from pocketmq.protocol.errors import FrameError, UsageError
from pocketmq.protocol.header import text_values

_CODEC = int(Codec.BINARY)
_FIXED = struct.Struct(">hbhiii")
_INT = struct.Struct(">i")
_SHORT = struct.Struct(">h")
assert _FIXED.size == 17

CODE_MAX = 0x7FFF
"""The code has 16 bits: RocketMQ's codes from 200050 on need another codec."""

NAME_SIZE_MAX = 0x7FFF
"""Bytes of a field's name: RocketMQ counts them in 16 bits with a sign."""


def decode(header: bytes, body: bytes) -> Command:
    """Reads a binary header.

    Raises:
        FrameError: a length points outside the header or text is not UTF-8.
    """
    try:
        code, language, version, opaque, flag, remark_size = _FIXED.unpack_from(header)
        position = _FIXED.size
        remark = None
        if remark_size > 0:
            remark = _slice(header, position, remark_size).decode()
            position += remark_size
        (ext_size,) = _INT.unpack_from(header, position)
        position += 4
        fields = _decode_fields(_slice(header, position, ext_size)) if ext_size > 0 else {}
    except (struct.error, UnicodeDecodeError) as e:
        raise FrameError(f"the binary header cannot be read: {e}") from e
    return Command(
        code, opaque, flag, body, remark, language, version, _CODEC, None, None, fields
    )


def _decode_fields(data: bytes) -> dict[str, str]:
    # RocketMQ's own clients send this codec, so the loop is a hot path: lengths are put together
    # by hand, and text is cut out of one Latin-1 string, which ASCII, the normal case, equals.
    fields: dict[str, str] = {}
    text = data.decode("latin-1")
    check = not data.isascii()
    position, end = 0, len(data)
    try:
        while position < end:
            name_end = position + 2 + (data[position] << 8 | data[position + 1])
            value_at = name_end + 4
            value_end = value_at + (
                data[name_end] << 24
                | data[name_end + 1] << 16
                | data[name_end + 2] << 8
                | data[name_end + 3]
            )
            if value_end > value_at:  # RocketMQ reads an empty value back as null
                name, value = text[position + 2 : name_end], text[value_at:value_end]
                if check:
                    name = data[position + 2 : name_end].decode()
                    value = data[value_at:value_end].decode()
                fields[name] = value
            position = value_end
    except IndexError:
        position = end + 1
    if position > end:
        raise FrameError(f"a field points outside the {end} bytes of the binary header's fields")
    return fields


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
    parts: list[bytes] = []
    for key, value in sorted(text_values(command.fields).items()):
        name = _NAMES.get(key) or _name(key)
        v = value.encode()
        parts += (name, _INT.pack(len(v)), v)
    ext = b"".join(parts)
    remark = command.remark.encode() if command.remark else b""
    fixed = _FIXED.pack(
        command.code, command.language, command.version, command.opaque, command.flag, len(remark)
    )
    return b"".join((fixed, remark, _INT.pack(len(ext)), ext))


_NAMES: dict[str, bytes] = {}
_NAMES_MAX = 1024


def _name(key: str) -> bytes:
    """A field's name as it stands on the wire, kept for the next time."""
    name = key.encode()
    if len(name) > NAME_SIZE_MAX:
        raise UsageError(f"a field name of {len(name)} bytes, the limit is {NAME_SIZE_MAX}")
    encoded = _SHORT.pack(len(name)) + name
    if len(_NAMES) < _NAMES_MAX:
        _NAMES[key] = encoded
    return encoded
