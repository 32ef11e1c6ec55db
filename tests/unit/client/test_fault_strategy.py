"""The whole fault-strategy table, and the choice of queues."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.client.fault_strategy import (
    ISOLATION_LATENCY_MS,
    ROCKETMQ_4_TABLE,
    ROCKETMQ_5_TABLE,
    FaultStrategy,
    FaultTable,
    LatencyFaultTolerance,
)
from pocketmq.client.queue_ring import QueueRing
from pocketmq.protocol.errors import ConfigError
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.testing.clock import VirtualClock


def queues(*brokers: str, each: int = 2) -> list[MessageQueue]:
    return [MessageQueue("T", name, i) for name in brokers for i in range(each)]


def strategy_of(
    clock: VirtualClock, *, enabled: bool = True, table: FaultTable = ROCKETMQ_4_TABLE
) -> FaultStrategy:
    return FaultStrategy(LatencyFaultTolerance(clock.monotonic), table, enabled=enabled)


@pytest.mark.parametrize(
    ("latency_ms", "seconds"),
    [
        (0, 0), (49, 0), (50, 0), (99, 0), (100, 0), (549.9, 0), (550, 30), (999, 30),
        (1_000, 60), (1_999, 60), (2_000, 120), (2_999, 120), (3_000, 180), (14_999, 180),
        (15_000, 600), (ISOLATION_LATENCY_MS, 600), (10**9, 600),
    ],
)  # fmt: skip
def test_default_table(latency_ms: float, seconds: int) -> None:
    assert ROCKETMQ_4_TABLE.unavailable_for(latency_ms) == seconds


@pytest.mark.parametrize(
    ("latency_ms", "seconds"),
    [
        (0, 0), (50, 0), (100, 0), (549, 0), (550, 2), (1_799, 2), (1_800, 5), (2_999, 5),
        (3_000, 6), (4_999, 6), (5_000, 10), (14_999, 10), (15_000, 30), (ISOLATION_LATENCY_MS, 30),
    ],
)  # fmt: skip
def test_preset_of_rocketmq_5(latency_ms: float, seconds: int) -> None:
    assert ROCKETMQ_5_TABLE.unavailable_for(latency_ms) == seconds


@pytest.mark.parametrize("levels", [(1, 1), (2, 1), (1,), (1, 2, 3)])
def test_a_table_that_contradicts_itself_is_refused(levels: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match="ascending"):
        FaultTable(levels, (0, 0))


@pytest.mark.parametrize(
    ("level_ms", "seconds"),
    [*zip(ROCKETMQ_4_TABLE.latency_ms, ROCKETMQ_4_TABLE.unavailable_s, strict=True)],
)
async def test_a_slow_broker_is_out_for_the_time_of_its_level(
    clock: VirtualClock, level_ms: int, seconds: int
) -> None:
    strategy = strategy_of(clock)
    strategy.observe("a", level_ms)
    is_available = strategy.tolerance.is_available
    assert is_available("a") == (seconds == 0)
    await clock.advance(max(0.0, seconds - 0.001))
    assert is_available("a") == (seconds == 0)
    await clock.advance(0.001)
    assert is_available("a")


async def test_isolation_counts_as_thirty_seconds_of_latency(clock: VirtualClock) -> None:
    strategy = strategy_of(clock)
    strategy.observe("a", 1, isolate=True)
    await clock.advance(599)
    assert not strategy.tolerance.is_available("a")
    await clock.advance(1)
    assert strategy.tolerance.is_available("a")


async def test_a_quick_answer_ends_the_exclusion(clock: VirtualClock) -> None:
    strategy = strategy_of(clock)
    strategy.observe("a", 1, isolate=True)
    strategy.observe("a", 20)
    assert strategy.tolerance.is_available("a")


async def test_without_the_switch_nothing_is_remembered(clock: VirtualClock) -> None:
    strategy = strategy_of(clock, enabled=False)
    strategy.observe("a", 20_000, isolate=True)
    assert strategy.tolerance.is_available("a")


async def test_queues_take_turns(clock: VirtualClock) -> None:
    ring = QueueRing(queues("a", "b"), start=-1)
    strategy = strategy_of(clock, enabled=False)
    assert [strategy.select(ring) for _ in range(5)] == [*queues("a", "b"), queues("a")[0]]


@pytest.mark.parametrize("enabled", [False, True])
async def test_the_broker_that_just_failed_is_avoided(clock: VirtualClock, enabled: bool) -> None:
    """RocketMQ 4's published loop *prefers* it: a known bug, see `FaultStrategy.select`."""
    ring = QueueRing(queues("a", "b", "c"))
    strategy = strategy_of(clock, enabled=enabled)
    chosen = {strategy.select(ring, "b").broker_name for _ in range(20)}
    assert chosen == {"a", "c"}


@pytest.mark.parametrize("enabled", [False, True])
async def test_the_only_broker_is_tried_again(clock: VirtualClock, enabled: bool) -> None:
    ring = QueueRing(queues("a"))
    strategy = strategy_of(clock, enabled=enabled)
    strategy.observe("a", 1, isolate=True)
    assert strategy.select(ring, "a").broker_name == "a"


async def test_brokers_that_are_out_are_left_out(clock: VirtualClock) -> None:
    ring = QueueRing(queues("a", "b", "c"))
    strategy = strategy_of(clock)
    strategy.observe("a", 1, isolate=True)
    assert {strategy.select(ring).broker_name for _ in range(20)} == {"b", "c"}
    assert {strategy.select(ring, "b").broker_name for _ in range(20)} == {"c"}
    await clock.advance(600)
    assert {strategy.select(ring).broker_name for _ in range(20)} == {"a", "b", "c"}


async def test_the_least_bad_is_taken_when_all_are_out(clock: VirtualClock) -> None:
    ring = QueueRing(queues("a", "b", "c"))
    strategy = strategy_of(clock)
    strategy.observe("a", 1, isolate=True)
    strategy.observe("b", 700)
    strategy.observe("c", 2_500)
    chosen = [strategy.select(ring) for _ in range(6)]
    assert {q.broker_name for q in chosen} == {"b"}
    assert {q.queue_id for q in chosen} == {0, 1}
    assert strategy.select(ring, "b").broker_name == "c"


def test_the_least_bad_of_none_is_none(clock: VirtualClock) -> None:
    assert LatencyFaultTolerance(clock.monotonic).least_bad([]) is None


def test_a_forgotten_broker_is_new(clock: VirtualClock) -> None:
    tolerance = LatencyFaultTolerance(clock.monotonic)
    tolerance.update("a", 30_000, 600)
    tolerance.forget("a")
    assert tolerance.is_available("a")


@given(
    out=st.sets(st.sampled_from("abcd")),
    names=st.lists(st.sampled_from("abcd"), min_size=1, unique=True),
    failed=st.none() | st.sampled_from("abcd"),
    enabled=st.booleans(),
)
def test_every_choice_is_a_queue_and_never_needlessly_the_failed_broker(
    out: set[str], names: list[str], failed: str | None, enabled: bool
) -> None:
    ring = QueueRing(queues(*names))
    strategy = strategy_of(VirtualClock(), enabled=enabled)
    for name in out:
        strategy.observe(name, 1, isolate=True)
    chosen = strategy.select(ring, failed)
    assert chosen in ring
    if set(names) - {failed}:
        assert chosen.broker_name != failed
    if enabled and set(names) - {failed} - out:
        assert chosen.broker_name not in out
