"""Header codec 0x50: PocketMQ's own, between peers that have shown that they know it.

A msgpack array ``[code, language, version, opaque, flag, remark, fields]``; `fields` is a map from
RocketMQ's field names to native values, so numbers are neither printed nor parsed.
"""

from __future__ import annotations

from typing import Any

import msgpack
import msgspec

from pocketmq.protocol.errors import FrameError
from pocketmq.protocol.wire.command import Codec, Command
from pocketmq.protocol.wire.header import native_fields, wire_form

_CODEC = int(Codec.MSGPACK)


def _plain(value: object) -> object:
    """Returns a value of the class that msgspec knows; subclasses of it are left to the caller."""
    for plain in (str, int):
        if isinstance(value, plain):
            return plain(value)
    raise TypeError(f"the value {value!r} of a header is neither text nor a number")


_pack = msgspec.msgpack.Encoder(enc_hook=_plain).encode

FIELDS_MAX = 1024
"""Fields of one header; no request has more than thirty."""

_PARTS = 7
# Without these limits a header of one-byte items would unpack to many times its size.
_LIMITS = {"max_array_len": _PARTS, "max_map_len": FIELDS_MAX, "max_ext_len": 0, "max_bin_len": 0}
_SMALL = 64 * 1024
"""Bytes of a header that is read without `_LIMITS`: nearly all are much smaller than this."""


class _Parts(msgspec.Struct, array_like=True, forbid_unknown_fields=True, gc=False):
    code: int
    language: int
    version: int
    opaque: int
    flag: int
    remark: str | None
    fields: dict[str, str | int | float | bool | None]


_DECODER = msgspec.msgpack.Decoder(_Parts)


def decode(header: bytes, body: bytes) -> Command:
    """Reads a msgpack header.

    Raises:
        FrameError: it is not an array of the seven parts.
    """
    try:
        if len(header) <= _SMALL:
            parts = _DECODER.decode(header)
        else:
            parts = msgspec.convert(msgpack.unpackb(header, **_LIMITS), _Parts)
    except (ValueError, msgpack.UnpackException, RecursionError) as e:
        raise FrameError(f"the msgpack header cannot be read: {e}") from e
    fields = parts.fields
    if len(fields) > FIELDS_MAX:
        raise FrameError(f"the msgpack header has {len(fields)} fields, allowed are {FIELDS_MAX}")
    return Command(
        parts.code,
        parts.opaque,
        parts.flag,
        body,
        parts.remark,
        parts.language,
        parts.version,
        _CODEC,
        None,
        None,
        fields,
    )


def encode(command: Command) -> bytes:
    """Writes a msgpack header."""
    fields: msgspec.Struct | dict[str, Any]
    header = command.header
    if header is None:
        fields = command.fields
    elif command.extra:
        fields = native_fields(header) | command.extra
    else:
        fields = wire_form(header.__class__)(header)
    return _pack(
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
