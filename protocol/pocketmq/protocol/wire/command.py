"""The remoting command: the content of one frame, independent of its header codec."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import msgspec

from pocketmq.protocol.codes import PROTOCOL_VERSION, LanguageCode
from pocketmq.protocol.errors import ContentError
from pocketmq.protocol.wire.header import Header, HeaderT, header_from_fields, text_fields
from pocketmq.protocol.wire.header_layout import LaidOutFields

FLAG_RESPONSE = 1
FLAG_ONEWAY = 2


class Codec(IntEnum):
    """The codec of a frame's header, as the high byte of the frame's second word says it."""

    JSON = 0
    BINARY = 1
    MSGPACK = 0x50
    """PocketMQ's own. Only sent to a peer that has shown that it understands it."""


class Command(msgspec.Struct, eq=False):
    """One request or response (`remoting/protocol/RemotingCommand`).

    To send one, set `header` (typed) and perhaps `extra` (loose fields). A received one keeps its
    fields undecoded in `raw` until `read` turns them into a typed header, once.
    """

    code: int
    opaque: int = 0
    flag: int = 0
    body: bytes = b""
    remark: str | None = None
    language: int = int(LanguageCode.PYTHON)
    version: int = PROTOCOL_VERSION
    codec: int = 0
    header: Header | None = None
    extra: dict[str, str] | None = None
    raw: Any = None

    @property
    def is_response(self) -> bool:
        """Whether this answers a request."""
        return self.flag & FLAG_RESPONSE != 0

    @property
    def is_oneway(self) -> bool:
        """Whether this request must not be answered, not even with an error."""
        return self.flag & FLAG_ONEWAY != 0

    def read(self, cls: type[HeaderT]) -> HeaderT:
        """Reads the fields of a received command into a typed header.

        Raises:
            ContentError: a required field is missing or has the wrong type.
        """
        raw = self.raw
        if raw.__class__ is LaidOutFields:
            return raw.read(cls)
        if raw.__class__ is msgspec.Raw:
            return read_json_fields(raw, cls)
        header = self.header
        if raw is None and isinstance(header, cls):
            return header  # it comes from the same process
        return header_from_fields(self.fields, cls)

    @property
    def fields(self) -> dict[str, Any]:
        """All fields by wire name, of a received command or of one that is about to be sent.

        Raises:
            ContentError: the fields of a received command are no table of scalars.
        """
        if self.raw is None:
            out: dict[str, Any] = text_fields(self.header) if self.header is not None else {}
            return out | self.extra if self.extra else out
        if self.raw.__class__ is msgspec.Raw:
            return loads_fields(self.raw)
        if self.raw.__class__ is LaidOutFields:
            return self.raw.fields()
        fields: dict[str, Any] = self.raw
        return fields


_DECODERS: dict[type[Header], msgspec.json.Decoder[Any]] = {}
_FIELDS = msgspec.json.Decoder(dict[str, str | int | float | bool | None] | None)


def loads_fields(raw: msgspec.Raw) -> dict[str, Any]:
    """Reads `extFields` of a JSON header into a mapping; leaves nulls out.

    Raises:
        ContentError: they are no table of scalars.
    """
    if not raw:
        return {}
    try:
        decoded = _FIELDS.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as e:
        raise ContentError(f"the fields of a header cannot be read: {e}") from e
    return {k: v for k, v in decoded.items() if v is not None} if decoded else {}


def read_json_fields(raw: msgspec.Raw, cls: type[HeaderT]) -> HeaderT:
    """Reads `extFields` of a JSON header straight into a typed header.

    Raises:
        ContentError: a required field is missing or has the wrong type.
    """
    decoder = _DECODERS.get(cls)
    if decoder is None:
        decoder = _DECODERS[cls] = msgspec.json.Decoder(cls, strict=False)
    try:
        header: HeaderT = decoder.decode(raw or b"{}")
    except (msgspec.DecodeError, UnicodeDecodeError):
        return header_from_fields(loads_fields(raw), cls)
    return header
