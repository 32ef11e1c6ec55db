"""The ids of a client and of its messages."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from datetime import UTC, datetime
from random import Random

from pocketmq.protocol.messages.hosts import encode_host
from pocketmq.protocol.messages.ids import unique_key_tail

MONTH_DAYS_MAX = 31
DAY_MS = 24 * 3600 * 1000


def local_address() -> str:
    """Returns the IP address by which this machine reaches others; 127.0.0.1 without a network."""
    # Connecting a datagram socket sends nothing; the system only looks up its routing table.
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("10.255.255.255", 9))
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"


def client_id(random: Random, instance_name: str | None = None) -> str:
    """Returns ``ip@instance``; an instance without a name is process id and a number.

    A broker tells the members of a group apart by this id, so it must be unique.
    """
    name = instance_name or f"{os.getpid()}#{random.getrandbits(48)}"
    return f"{local_address()}@{name}"


def lasting_id(instance_name: str | None = None) -> str:
    """Returns ``ip@instance`` without process id and number, the same after a restart."""
    return f"{local_address()}@{instance_name or 'DEFAULT'}"


class UniqueKeys:
    """Gives each message its `UNIQ_KEY` (`common/message/MessageClientIDSetter`).

    Address, process, a random number, the time within the month and a counter: 32 characters.

    Args:
        now_ms: a wall clock.
        random: makes the ids of two instances of one process differ.
    """

    def __init__(self, now_ms: Callable[[], int], random: Random) -> None:
        self._now_ms = now_ms
        address = encode_host(local_address(), 0)[:4]
        pid = (os.getpid() & 0xFFFF).to_bytes(2, "big")
        prefix = address + pid + random.getrandbits(32).to_bytes(4, "big")
        self._prefix = prefix.hex().upper()
        self._counter = random.getrandbits(16)
        self._month_start_ms = self._next_month_ms = 0

    def next(self) -> str:
        """Returns a key that no other message has."""
        now_ms = self._now_ms()
        if not self._month_start_ms <= now_ms < self._next_month_ms:
            self._enter_month(now_ms)
        self._counter = counter = self._counter + 1
        return self._prefix + unique_key_tail(now_ms - self._month_start_ms, counter)

    def _enter_month(self, now_ms: int) -> None:
        start = datetime.fromtimestamp(now_ms / 1000, UTC).replace(
            day=1, hour=0, minute=0, second=0, microsecond=0
        )
        self._month_start_ms = int(start.timestamp() * 1000)
        inside_next = self._month_start_ms + MONTH_DAYS_MAX * DAY_MS
        following = datetime.fromtimestamp(inside_next / 1000, UTC).replace(day=1)
        self._next_month_ms = int(following.timestamp() * 1000)
