"""How much a batch reads, and when."""

from __future__ import annotations

from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.spark.streaming.limits import BatchLimits
from pocketmq.spark.streaming.options import StreamOptions
from pocketmq.testing.clock import VirtualClock

Q0, Q1 = MessageQueue("T", "a", 0), MessageQueue("T", "a", 1)
BACKLOGS = {Q0: 30, Q1: 10}


def options(**given: object) -> StreamOptions:
    return StreamOptions(subscribe="T", **given)  # type: ignore[arg-type]


def test_without_limits_all_is_read(clock: VirtualClock) -> None:
    assert BatchLimits(options(), clock).take(BACKLOGS, is_limited=True, may_wait=True) == BACKLOGS


def test_a_trigger_without_limits_reads_all(clock: VirtualClock) -> None:
    limits = BatchLimits(options(max_offsets_per_trigger=4, min_offsets_per_trigger=3), clock)
    assert limits.take(BACKLOGS, is_limited=True, may_wait=True) == {Q0: 3, Q1: 1}
    assert limits.take(BACKLOGS, is_limited=False, may_wait=False) == BACKLOGS
    assert limits.take({Q0: 1}, is_limited=False, may_wait=False) == {Q0: 1}


async def test_few_messages_wait_for_more_but_not_for_ever(clock: VirtualClock) -> None:
    limits = BatchLimits(options(min_offsets_per_trigger=41, max_trigger_delay="10s"), clock)
    assert limits.take(BACKLOGS, is_limited=True, may_wait=True) == {}
    assert limits.take({Q0: 5}, is_limited=True, may_wait=False) == {Q0: 5}
    limits = BatchLimits(options(min_offsets_per_trigger=41, max_trigger_delay="10s"), clock)
    await clock.advance(9.9)
    assert limits.take(BACKLOGS, is_limited=True, may_wait=True) == {}
    await clock.advance(0.2)
    assert limits.take(BACKLOGS, is_limited=True, may_wait=True) == BACKLOGS
    assert limits.take(BACKLOGS, is_limited=True, may_wait=True) == {}, "the next one waits anew"
    assert limits.take({Q0: 41}, is_limited=True, may_wait=True) == {Q0: 41}
