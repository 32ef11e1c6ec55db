"""Which messages are wanted."""

from __future__ import annotations

from typing import Protocol

from pocketmq.console.api.finding.content import BODY, Content, parts_of
from pocketmq.console.decoding.decoders import Decoders
from pocketmq.protocol.filters.expression import Expression, parse
from pocketmq.protocol.messages.message import Message


class Wish(Protocol):
    """What a request wants of messages."""

    @property
    def key(self) -> str | None: ...  # noqa: D102
    @property
    def tag(self) -> str | None: ...  # noqa: D102
    @property
    def contains(self) -> str | None: ...  # noqa: D102
    @property
    def where(self) -> str | None: ...  # noqa: D102
    @property
    def decoder(self) -> str | None: ...  # noqa: D102


class Fits(Protocol):
    """Tells of each message whether it is wanted."""

    async def fits(self, message: Message) -> bool: ...  # noqa: D102


class Condition:
    """Tells whether messages are wanted.

    Args:
        wish: what the request says.
        decoders: decode bodies where the condition looks into these.

    Attributes:
        reads_bodies: whether its answers tell something of bodies.
        undecoded: messages so far that could not be decoded, and so were not wanted.

    Raises:
        UsageError: the condition is no SQL92, or there is no such decoder.
    """

    def __init__(self, wish: Wish, decoders: Decoders) -> None:
        decoders.check(wish.decoder)
        self._key, self._tag, self._contains = wish.key, wish.tag, wish.contains
        self._decoder, self._decoders = wish.decoder, decoders
        self._where: Expression | None = None
        names: list[list[str]] = []
        if wish.where:
            self._where = parse(wish.where, strict=True, members=True)
            names = [parts_of(name) for name in self._where.names]
        of_body = [parts for parts in names if parts[0] == BODY]
        self._decodes = any(len(parts) > 1 for parts in of_body)
        self.reads_bodies = self._contains is not None or bool(of_body)
        self.undecoded = 0

    async def fits(self, message: Message) -> bool:
        """Tells whether a message is wanted."""
        if self._key is not None and self._key not in message.keys:
            return False
        if self._tag is not None and self._tag != message.tags:
            return False
        if self._contains is not None and self._contains not in message.body.decode(
            "utf-8", "replace"
        ):
            return False
        if self._where is None:
            return True
        value = None
        if self._decodes:
            decoded = await self._decoders.decode(self._decoder, message)
            if decoded.problem is not None:
                self.undecoded += 1
            value = decoded.value
        return self._where.matches(Content(message, value))
