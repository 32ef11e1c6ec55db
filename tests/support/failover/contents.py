"""Messages whose bodies say which they are, so that none can be taken for another."""

from __future__ import annotations

import random
import zlib

SIZE_MAX = 20_000
"""Of a large body: some are compressed by clients."""

LARGE_EVERY = 20


def new_body(client: str, number: int, chance: random.Random) -> bytes:
    """The body of a client's next message."""
    size = SIZE_MAX if chance.randrange(LARGE_EVERY) == 0 else 40
    return f"{client}/{number}|".encode() + b"." * chance.randrange(size)


def content_of(body: bytes) -> str:
    """A short name of a body: who sent it, its number, and its checksum."""
    return f"{body.partition(b'|')[0].decode()}:{zlib.crc32(body):x}"
