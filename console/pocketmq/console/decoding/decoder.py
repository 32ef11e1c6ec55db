"""The protocol of decoders, with which other packages teach the console their formats."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

ENTRY_POINTS = "pocketmq.decoders"
"""The group of entry points under which packages offer decoders: a class, or a function that makes
one."""


class Decoder(Protocol):
    """Turns the bodies of messages into values.

    A decoder may have a method ``suits(body, topic, properties) -> bool``, too: then the console
    chooses the decoder by itself for the messages that suit it.

    Attributes:
        name: by which people choose the decoder, such as ``avro``.
    """

    name: str

    def decode(self, body: bytes, topic: str, properties: Mapping[str, str]) -> object:
        """Returns the value of a body: dicts, lists, strings, numbers, bytes, or a mixture.

        Args:
            body: of the message, unpacked. Whoever may send to the topic has written it.
            topic: of the message.
            properties: of the message.

        Raises:
            Exception: the body is not of this format; the console shows the error's text.
        """
