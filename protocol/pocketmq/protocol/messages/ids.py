"""The two message ids: where a message is stored, and what its sender called it (wire.md §3.5)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from pocketmq.protocol.errors import UsageError
from pocketmq.protocol.messages.hosts import decode_host

MONTH_MS_MAX = 31 * 86_400_000


class StoredAt(NamedTuple):
    """The content of an offset message id: a broker's address and a physical offset there."""

    store_host: str
    physical_offset: int


def offset_msg_id(store_host: bytes, physical_offset: int) -> str:
    """Makes the id that names a stored message by its physical offset.

    Args:
        store_host: encoded address and port of the broker (8 or 20 bytes).
        physical_offset: the record's place in that broker's store.
    """
    return f"{store_host.hex()}{physical_offset:016x}".upper()


def offset_msg_ids(store_host: bytes, physical_offsets: Sequence[int]) -> str:
    """Makes the ids of several messages on one broker, separated by commas."""
    return offset_msg_ids_at(
        store_host, struct.pack(f">{len(physical_offsets)}q", *physical_offsets)
    )


def offset_msg_ids_at(store_host: bytes, places: bytes) -> str:
    """The same for physical offsets back to back, 8 bytes each."""
    prefix = store_host.hex().upper()
    return prefix + places.hex(",", 8).upper().replace(",", f",{prefix}")


def parse_offset_msg_id(text: str) -> StoredAt:
    """Takes an offset message id apart.

    Raises:
        UsageError: it is not one.
    """
    try:
        data = bytes.fromhex(text)
    except ValueError:
        data = b""
    if len(text) not in (32, 56) or len(data) * 2 != len(text):  # fromhex skips blanks
        raise UsageError(
            f"{text!r} is no offset message id: 32 hexadecimal digits for an IPv4 broker or 56 for "
            f"an IPv6 one; an id given by the client can only be looked up with its topic"
        )
    return StoredAt(decode_host(data[:-8]), int.from_bytes(data[-8:], "big"))


def unique_key(prefix: bytes, month_ms: int, counter: int) -> str:
    """Makes the id that a client gives to a message (`common/message/MessageClientIDSetter`).

    Args:
        prefix: IP address (4 or 16 bytes), process id (2) and a random number (4).
        month_ms: milliseconds since the start of the month.
        counter: of this process; wraps at 65536.
    """
    return prefix.hex().upper() + unique_key_tail(month_ms, counter)


def unique_key_tail(month_ms: int, counter: int) -> str:
    """Makes the last 12 characters of a `unique_key`, after those of the prefix."""
    # A month has more than 2^31 ms; RocketMQ writes the low 32 bits and reads them unsigned.
    return f"{(month_ms & 0xFFFFFFFF) << 16 | counter & 0xFFFF:012X}"


def unique_key_month_ms(text: str) -> int | None:
    """Reads from a `unique_key` the milliseconds since the start of the month; None if it is none.

    RocketMQ's clients count from the start of the month in their time zone.
    """
    if len(text) not in (32, 56):
        return None
    try:
        tail = bytes.fromhex(text[-12:])
    except ValueError:
        return None
    month_ms = int.from_bytes(tail[:4], "big")
    return month_ms if month_ms <= MONTH_MS_MAX else None
