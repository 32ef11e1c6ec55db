"""Header codec 0x50: PocketMQ's own, between peers that have shown that they know it.

A msgpack array ``[code, language, version, opaque, flag, remark, fields]``; `fields` is a map from
RocketMQ's field names to native values, so numbers are neither printed nor parsed.
"""

from __future__ import annotations

from typing import Any

import msgpack

from pocketmq.protocol.command import Codec, Command
from pocketmq.protocol.errors import FrameError
from pocketmq.protocol.header import native_fields

_CODEC = int(Codec.MSGPACK)
_pack = msgpack.Packer().pack

FIELDS_MAX = 1024
"""Fields of one header; no request has more than thirty."""

_PARTS = 7
# Without these limits a header of one-byte items would unpack to many times its size.
_LIMITS = {"max_array_len": _PARTS, "max_map_len": FIELDS_MAX, "max_ext_len": 0, "max_bin_len": 0}


def decode(header: bytes, body: bytes) -> Command:
    """Reads a msgpack header.

    Raises:
        FrameError: it is not an array of the seven parts.
    """
    try:
        code, language, version, opaque, flag, remark, fields = msgpack.unpackb(header, **_LIMITS)
    except (ValueError, TypeError, msgpack.UnpackException) as e:
        raise FrameError(f"the msgpack header cannot be read: {e}") from e
    numbers = (code, language, version, opaque, flag)
    if not (
        all(n.__class__ is int for n in numbers)
        and (remark is None or remark.__class__ is str)
        and fields.__class__ is dict
        and all(k.__class__ is str for k in fields)
    ):
        raise FrameError("the msgpack header has parts of the wrong type")
    return Command(code, opaque, flag, body, remark, language, version, _CODEC, None, None, fields)


def encode(command: Command) -> bytes:
    """Writes a msgpack header."""
    fields: dict[str, Any]
    if command.header is not None:
        fields = native_fields(command.header)
        if command.extra:
            fields |= command.extra
    else:
        fields = command.fields
    packed: bytes = _pack(
        (
            command.code,
            command.language,
            command.version,
            command.opaque,
            command.flag,
            command.remark,
            fields,
        )
    )
    return packed
