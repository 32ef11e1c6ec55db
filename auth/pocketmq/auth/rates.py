"""Limits of requests and bytes a second: of an address, of a client and of a user.

Each has a bucket of tokens, which a second fills: who was silent may ask for a second's worth at
once. A request beyond it is refused with 2, SYSTEM_BUSY, as RocketMQ's flow control does.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import wraps
from typing import Protocol

import msgspec

from pocketmq.auth.guard import USER
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.wire.command import Command
from pocketmq.runtime.clock import Clock
from pocketmq.transport.connection import Connection, Handler, Reply

BUCKETS_MAX = 10_000
"""Addresses and users that have buckets; then all begin anew with full ones."""

_BUCKETS = "rates"
"""A connection's attribute: its own buckets."""


class RateConfig(Protocol):
    """The settings of a server that this module reads; 0 is no limit."""

    @property
    def requests_per_second_of_address(self) -> int: ...  # noqa: D102

    @property
    def bytes_per_second_of_address(self) -> int: ...  # noqa: D102

    @property
    def requests_per_second_of_client(self) -> int: ...  # noqa: D102

    @property
    def bytes_per_second_of_client(self) -> int: ...  # noqa: D102

    @property
    def requests_per_second_of_user(self) -> int: ...  # noqa: D102

    @property
    def bytes_per_second_of_user(self) -> int: ...  # noqa: D102


class Rate(msgspec.Struct, frozen=True):
    """How much somebody may ask for in a second; 0 is no limit.

    Attributes:
        requests: number of requests.
        size: bytes of their bodies.
        settings: the names of both limits, for the refusal.
    """

    requests: int
    size: int
    settings: str

    @property
    def is_limiting(self) -> bool:
        """Whether there is a limit at all."""
        return bool(self.requests or self.size)


class Rates(msgspec.Struct, frozen=True):
    """The limits of each address, client and user."""

    of_address: Rate
    of_client: Rate
    of_user: Rate

    @classmethod
    def of(cls, config: RateConfig) -> Rates:
        """Reads the limits of a server's configuration."""
        return cls(
            Rate(config.requests_per_second_of_address, config.bytes_per_second_of_address,
                 "requestsPerSecondOfAddress, bytesPerSecondOfAddress"),
            Rate(config.requests_per_second_of_client, config.bytes_per_second_of_client,
                 "requestsPerSecondOfClient, bytesPerSecondOfClient"),
            Rate(config.requests_per_second_of_user, config.bytes_per_second_of_user,
                 "requestsPerSecondOfUser, bytesPerSecondOfUser"),
        )  # fmt: skip


class Bucket:
    """The tokens of one address, client or user: requests, and bytes."""

    __slots__ = ("_at_s", "_rate", "_requests", "_size")

    def __init__(self, rate: Rate, now_s: float) -> None:
        self._rate, self._at_s = rate, now_s
        self._requests, self._size = float(rate.requests), float(rate.size)

    def take(self, size: int, now_s: float) -> bool:
        """Takes the tokens of a request; False if there are not enough.

        A body that is larger than a second's worth is let through with a full bucket, whose owner
        then waits for as long as that body would have taken.

        Args:
            size: bytes of its body.
            now_s: the time.
        """
        rate, past_s = self._rate, now_s - self._at_s
        self._at_s = now_s
        requests = min(self._requests + past_s * rate.requests, rate.requests)
        left = min(self._size + past_s * rate.size, rate.size)
        is_enough = (not rate.requests or requests >= 1) and (not rate.size or left > 0)
        self._requests = requests - is_enough
        self._size = left - size * is_enough
        return is_enough


class RateLimits:
    """Refuses requests of those who ask for too much.

    Args:
        rates: the limits.
        clock: fills the buckets.

    Attributes:
        refused_count: how many requests were refused.
    """

    def __init__(self, rates: Rates, clock: Clock) -> None:
        self._rates, self._clock = rates, clock
        self._of_address: dict[str, Bucket] = {}
        self._of_user: dict[str, Bucket] = {}
        self.refused_count = 0

    def outer(self, table: Mapping[int, Handler]) -> dict[int, Handler]:
        """Limits addresses and clients: stands before everything, also before signatures."""
        rates = self._rates
        if not rates.of_address.is_limiting and not rates.of_client.is_limiting:
            return dict(table)
        return {code: self._before(handler) for code, handler in table.items()}

    def inner(self, table: Mapping[int, Handler]) -> dict[int, Handler]:
        """Limits users: stands behind the signatures."""
        if not self._rates.of_user.is_limiting:
            return dict(table)
        return {code: self._behind(handler) for code, handler in table.items()}

    def _before(self, handler: Handler) -> Handler:
        of_address, of_client = self._rates.of_address, self._rates.of_client

        @wraps(handler)
        def limited_handler(command: Command, connection: Connection) -> Reply:
            now_s, size = self._clock.monotonic(), len(command.body)
            if of_client.is_limiting:
                bucket = connection.attributes.get(_BUCKETS)
                if bucket is None:
                    bucket = connection.attributes[_BUCKETS] = Bucket(of_client, now_s)
                if not bucket.take(size, now_s):
                    return self._refuse(of_client, "this client")
            if of_address.is_limiting:
                host = connection.remote_address.rpartition(":")[0]
                bucket = self._bucket(self._of_address, host, of_address, now_s)
                if not bucket.take(size, now_s):
                    return self._refuse(of_address, host)
            return handler(command, connection)

        return limited_handler

    def _behind(self, handler: Handler) -> Handler:
        of_user = self._rates.of_user

        @wraps(handler)
        def limited_handler(command: Command, connection: Connection) -> Reply:
            user = connection.attributes.get(USER)
            if user is not None:
                now_s = self._clock.monotonic()
                bucket = self._bucket(self._of_user, user, of_user, now_s)
                if not bucket.take(len(command.body), now_s):
                    return self._refuse(of_user, f"User:{user}")
            return handler(command, connection)

        return limited_handler

    def _bucket(self, buckets: dict[str, Bucket], key: str, rate: Rate, now_s: float) -> Bucket:
        bucket = buckets.get(key)
        if bucket is None:
            if len(buckets) >= BUCKETS_MAX:
                buckets.clear()
            bucket = buckets[key] = Bucket(rate, now_s)
        return bucket

    def _refuse(self, rate: Rate, who: str) -> Command:
        self.refused_count += 1
        return Command(
            ResponseCode.SYSTEM_BUSY,
            remark=f"[REJECTREQUEST]system busy, start flow control for a while: {who} asks for "
            f"more than it may in a second ({rate.settings})",
        )
