"""JSON bodies of requests and answers, with RocketMQ's field names (wire.md §4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import msgspec

from pocketmq.protocol.errors import ContentError
from pocketmq.protocol.wire import loose_json

REQUEST_BODY_SIZE_MAX = 2 * 1024 * 1024
"""Bytes of a request's JSON, such as the heartbeat of 5,000 consumers."""

REQUEST_PARTS_MAX = 30_000
"""Objects and lists in a request's JSON; each takes as long to read as a hundred bytes of text."""

DIALECT_SIZE_MAX = 64 * 1024
"""Bytes of a request's JSON that may be in RocketMQ's dialect."""

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

    @classmethod
    def of_request(cls: type[BodyT], data: bytes) -> BodyT:
        """Reads the body of a peer's request, within limits: reading must not take long.

        A body above `DIALECT_SIZE_MAX` must be standard JSON without nulls, which is read a hundred
        times faster; Apache's clients write requests in no other way.

        Raises:
            ContentError: it is not such a body, or beyond a limit.
        """
        found = f"the body has {len(data)} bytes"
        is_large = len(data) > REQUEST_BODY_SIZE_MAX  # then counting its parts would take long, too
        if not is_large:
            parts = data.count(b"{") + data.count(b"[")
            is_large = parts > REQUEST_PARTS_MAX
            found += f" with {parts} objects and lists"
        if is_large:
            raise ContentError(
                f"{found}: a {cls.__name__} may have {REQUEST_BODY_SIZE_MAX} bytes and "
                f"{REQUEST_PARTS_MAX} objects and lists; send several smaller ones"
            )
        return loose_json.decode(data, cls, is_standard=len(data) > DIALECT_SIZE_MAX)
