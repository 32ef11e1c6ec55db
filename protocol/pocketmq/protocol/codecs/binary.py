"""Header codec 1: RocketMQ's binary header (`remoting/protocol/RocketMQSerializable`).

``int16 code | int8 language | int16 version | int32 opaque | int32 flag |
int32 remarkLen | remark | int32 extLen | (int16 keyLen | key | int32 valueLen | value)*``
"""

from __future__ import annotations

import struct

from pocketmq.protocol.command import Codec, Command
from pocketmq.protocol.errors import FrameError, UsageError
from pocketmq.protocol.header import text_values

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
        code, opaque, flag, body, remark, language, version, Codec.BINARY, None, None, fields
    )


def _decode_fields(data: bytes) -> dict[str, str]:
    fields: dict[str, str] = {}
    position, end = 0, len(data)
    while position < end:
        (key_size,) = _SHORT.unpack_from(data, position)
        position += 2
        key = _slice(data, position, key_size).decode()
        position += key_size
        (value_size,) = _INT.unpack_from(data, position)
        position += 4
        value = _slice(data, position, value_size)
        position += value_size
        if value_size:  # RocketMQ reads an empty value back as null
            fields[key] = value.decode()
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
    entries = []
    for key, value in sorted(text_values(command.fields).items()):
        k, v = key.encode(), value.encode()
        if len(k) > NAME_SIZE_MAX:
            raise UsageError(f"a field name of {len(k)} bytes, the limit is {NAME_SIZE_MAX}")
        entries.append(_SHORT.pack(len(k)) + k + _INT.pack(len(v)) + v)
    ext = b"".join(entries)
    remark = command.remark.encode() if command.remark else b""
    fixed = _FIXED.pack(
        command.code, command.language, command.version, command.opaque, command.flag, len(remark)
    )
    return fixed + remark + _INT.pack(len(ext)) + ext
