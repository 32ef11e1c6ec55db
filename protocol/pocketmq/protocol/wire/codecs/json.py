"""Header codec 0: one JSON object, keys sorted, values of `extFields` always strings."""

from __future__ import annotations

import msgspec

from pocketmq.protocol.codes import LANGUAGE_NAMES, LANGUAGES_BY_NAME, LanguageCode
from pocketmq.protocol.errors import FrameError
from pocketmq.protocol.wire.command import Codec, Command
from pocketmq.protocol.wire.header import text_fields, text_values

_NO_FIELDS = msgspec.Raw()
_OTHER = int(LanguageCode.OTHER)
_language_number = LANGUAGES_BY_NAME.get  # for CPython: no fast calls on what was imported


class _JsonHeader(msgspec.Struct):
    code: int
    opaque: int = 0
    flag: int = 0
    version: int = 0
    language: str | int | None = None
    remark: str | None = None
    extFields: msgspec.Raw = _NO_FIELDS  # noqa: N815 (the wire's name)


_DECODER = msgspec.json.Decoder(_JsonHeader, strict=False)
_dumps = msgspec.json.Encoder().encode


def decode(header: bytes, body: bytes) -> Command:
    """Reads a JSON header.

    Raises:
        FrameError: it is not a JSON object with an integer `code`.
    """
    try:
        h = _DECODER.decode(header)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as e:
        raise FrameError(f"the JSON header cannot be read: {e}") from e
    language = h.language
    if isinstance(language, str):
        language = _language_number(language, _OTHER)
    elif language is None:
        language = _OTHER
    return Command(
        h.code,
        h.opaque,
        h.flag,
        body,
        h.remark,
        language,
        h.version,
        0,
        None,
        None,
        h.extFields,
    )


def encode(command: Command) -> bytes:
    """Writes a JSON header byte for byte as RocketMQ 5.5.0 does."""
    if command.header is not None:
        fields = text_fields(command.header)
        if command.extra:
            fields = dict(sorted((fields | command.extra).items()))
        ext = b'"extFields":' + _dumps(fields) + b","
    elif command.extra is not None or command.raw:
        fields = text_values(command.fields)
        ext = b'"extFields":' + _dumps(dict(sorted(fields.items()))) + b","
    else:
        ext = b""
    remark = b"" if command.remark is None else b'"remark":' + _dumps(command.remark) + b","
    return b'{"code":%d,%b"flag":%d,"language":"%b","opaque":%d,%b%b"version":%d}' % (
        command.code,
        ext,
        command.flag,
        LANGUAGE_NAMES.get(command.language, "OTHER").encode(),
        command.opaque,
        remark,
        _TYPE,
        command.version,
    )


_TYPE = b'"serializeTypeCurrentRPC":"%b",' % Codec.JSON.name.encode()
