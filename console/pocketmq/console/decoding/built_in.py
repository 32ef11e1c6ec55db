"""The decoders that are always there."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgpack
import msgspec

from pocketmq.protocol.errors import ContentError

DECODED_SIZE_MAX = 8 * 1024 * 1024
"""Bytes of a body that becomes a value; a larger one is shown as text or bytes."""

BODY_ERRORS = (ValueError, TypeError, OverflowError, RecursionError, msgpack.UnpackException)
"""What parsers say of bytes that are no value."""


class BuiltIn:
    """A decoder of this project: quick and bounded, so that it needs no thread.

    Args:
        name: of the decoder.
        title: of the format, in errors.
        read: makes the value of a body.
        size_max: bytes of a body at most; None for any.
    """

    def __init__(
        self, name: str, title: str, read: Callable[[bytes], object], size_max: int | None = None
    ) -> None:
        self.name, self._title, self._read, self._size_max = name, title, read, size_max

    def decode(self, body: bytes, topic: str, properties: Mapping[str, str]) -> object:
        """Returns the value of a body.

        Raises:
            ContentError: the body is not of this format, or too large.
        """
        if self._size_max is not None and len(body) > self._size_max:
            raise ContentError(
                f"the body has {len(body)} bytes, and is read as {self._title} up to "
                f"{self._size_max}: look at it as text or hex"
            )
        try:
            return self._read(body)
        except BODY_ERRORS as e:
            reason = str(e) or type(e).__name__
            raise ContentError(f"the body is no {self._title}: {reason}") from e


def _text(body: bytes) -> str:
    return body.decode()


def _message_pack(body: bytes) -> object:
    value = msgpack.unpackb(body, strict_map_key=False, timestamp=3)
    # Times become text, and extensions pairs of number and bytes.
    return msgspec.to_builtins(value, builtin_types=(bytes,), enc_hook=str)


JSON = BuiltIn("json", "JSON", msgspec.json.decode, DECODED_SIZE_MAX)
MESSAGE_PACK = BuiltIn("msgpack", "MessagePack", _message_pack, DECODED_SIZE_MAX)
TEXT = BuiltIn("text", "UTF-8 text", _text)
HEX = BuiltIn("hex", "bytes", bytes)

BUILT_IN = (JSON, MESSAGE_PACK, TEXT, HEX)

_MAYBE_PACKED = frozenset({*range(0x80, 0xA0), 0xDC, 0xDD, 0xDE, 0xDF})
"""The first bytes of lists and maps of MessagePack: other bodies would become a number, or so."""


def detected(body: bytes) -> tuple[BuiltIn, object]:
    """Chooses the decoder of a body by its content, and decodes it.

    Only objects and lists become values by themselves: any text with a number is JSON, and almost
    any byte is a number of MessagePack.
    """
    choices: list[BuiltIn] = []
    if body.lstrip()[:1] in (b"{", b"["):
        choices.append(JSON)
    if body[:1] and body[0] in _MAYBE_PACKED:
        choices.append(MESSAGE_PACK)
    for decoder in (*choices, TEXT):
        try:
            return decoder, decoder.decode(body, "", {})
        except ContentError:
            continue
    return HEX, bytes(body)
