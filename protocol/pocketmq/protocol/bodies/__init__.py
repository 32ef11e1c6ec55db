"""JSON bodies of requests and answers, with RocketMQ's field names (wire.md §4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import msgspec

from pocketmq.protocol.wire import loose_json

BodyT = TypeVar("BodyT", bound="Body")


class Body(msgspec.Struct, rename="camel", kw_only=True):
    """A JSON body; None means absent."""

    def encode(self, *, quote_keys: bool = False) -> bytes:
        """Encodes the body as RocketMQ writes it; with `quote_keys`, as standard JSON."""
        return loose_json.encode(self, quote_keys=quote_keys)

    def pieces(self) -> Iterator[bytes]:
        """Yields what `encode` returns, piece by piece; see `loose_json.pieces`."""
        return loose_json.pieces(self)

    @classmethod
    def decode(cls: type[BodyT], data: bytes) -> BodyT:
        """Reads a body written by any RocketMQ version.

        Raises:
            ContentError: it is not such a body.
        """
        return loose_json.decode(data, cls)
