"""Limits of requests and bytes a second."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.auth import rates as module
from pocketmq.auth.guard import USER
from pocketmq.auth.rates import Bucket, Rate, RateLimits, Rates
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.wire.command import Command
from pocketmq.testing.clock import VirtualClock
from pocketmq.transport.connection import Connection, Handler

NONE = Rate(0, 0, "")


def handle(command: Command, connection: Connection) -> Command:
    return Command(ResponseCode.SUCCESS)


class Limited:
    """A handler behind limits."""

    def __init__(self, clock: VirtualClock, **limits: Rate) -> None:
        given = {"of_address": NONE, "of_client": NONE, "of_user": NONE} | limits
        self.limits, self.clock = RateLimits(Rates(**given), clock), clock
        self.table: dict[int, Handler] = self.limits.outer(self.limits.inner({1: handle}))

    def connection(self, host: str = "10.0.0.1", user: str | None = None) -> Connection:
        connection = Connection(self.clock, {})
        connection.remote_address = f"{host}:1"
        if user is not None:
            connection.attributes[USER] = user
        return connection

    def answered(self, connection: Connection, count: int, size: int = 0) -> int:
        """How many of so many requests are handled."""
        replies = [self.table[1](Command(1, body=bytes(size)), connection) for _ in range(count)]
        refused = [r for r in replies if isinstance(r, Command) and r.code]
        for reply in refused:
            assert reply.code == ResponseCode.SYSTEM_BUSY
            assert "PerSecondOf" in (reply.remark or "")
        return count - len(refused)


async def test_an_address_has_its_share_whatever_its_connections(clock: VirtualClock) -> None:
    limited = Limited(clock, of_address=Rate(10, 0, "requestsPerSecondOfAddress"))
    first, second = limited.connection(), limited.connection()
    assert limited.answered(first, 6) + limited.answered(second, 6) == 10
    assert limited.answered(limited.connection("10.0.0.2"), 20) == 10
    await clock.advance(0.5)
    assert limited.answered(second, 20) == 5
    await clock.advance(100)
    assert limited.answered(second, 20) == 10
    assert limited.limits.refused_count == 2 + 10 + 15 + 10


async def test_a_client_has_its_share_of_bytes(clock: VirtualClock) -> None:
    limited = Limited(clock, of_client=Rate(0, 1_000, "bytesPerSecondOfClient"))
    one, other = limited.connection(), limited.connection()
    assert limited.answered(one, 10, 400) == 3, "the third goes beyond"
    assert limited.answered(other, 1, 5_000) == 1, "a large body passes a full bucket"
    await clock.advance(1)
    assert (limited.answered(one, 1, 400), limited.answered(other, 1)) == (1, 0)
    await clock.advance(4)
    assert limited.answered(other, 1) == 1


async def test_a_user_has_its_share_wherever_it_comes_from(clock: VirtualClock) -> None:
    limited = Limited(clock, of_user=Rate(5, 0, "requestsPerSecondOfUser"))
    assert limited.answered(limited.connection("10.0.0.1", "u"), 3) == 3
    assert limited.answered(limited.connection("10.0.0.2", "u"), 3) == 2
    assert limited.answered(limited.connection("10.0.0.1", "v"), 3) == 3
    assert limited.answered(limited.connection("10.0.0.1"), 30) == 30, "nobody has proved it"


async def test_what_is_not_limited_costs_nothing(clock: VirtualClock) -> None:
    assert Limited(clock).table == {1: handle}


async def test_buckets_are_bounded(clock: VirtualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BUCKETS_MAX", 3)
    limited = Limited(clock, of_address=Rate(1, 0, "requestsPerSecondOfAddress"))
    for number in range(10):
        assert limited.answered(limited.connection(f"10.0.0.{number}"), 1) == 1
    assert limited.answered(limited.connection("10.0.0.9"), 1) == 0


@given(
    st.lists(st.tuples(st.floats(0, 3), st.integers(0, 500)), max_size=50),
    st.integers(1, 20),
    st.integers(1, 1_000),
)
def test_nobody_gets_more_than_the_rate(
    asked: list[tuple[float, int]], requests: int, size: int
) -> None:
    """Invariant: within any run, no more than a second's worth beyond what time has brought."""
    bucket, now_s, taken, bytes_taken = Bucket(Rate(requests, size, ""), 0.0), 0.0, 0, 0
    for pause_s, body in asked:
        now_s += pause_s
        if bucket.take(body, now_s):
            taken, bytes_taken = taken + 1, bytes_taken + body
            assert bytes_taken - body <= size * (now_s + 1) + 1e-6
    assert taken <= requests * (now_s + 1) + 1e-6
