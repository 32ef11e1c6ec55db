from __future__ import annotations

import asyncio

import pytest
from support.namesrv.builders import key_of

from pocketmq.namesrv import broker_turns
from pocketmq.namesrv.broker_turns import (
    AT_ONCE_SIZE_MAX,
    GIVEN_BACK_AFTER_S,
    BrokerTurns,
    read_in_slices,
)
from pocketmq.protocol.bodies.registrations import TOPICS_PER_STEP, read_registration
from pocketmq.protocol.bodies.topics import RegisterBrokerBody, TopicConfig, TopicConfigTable
from pocketmq.protocol.codes import Version
from pocketmq.protocol.errors import ContentError
from pocketmq.testing.clock import VirtualClock, settle
from pocketmq.transport.frame_budget import FrameBudget

KEY, OTHER = key_of("broker-a"), key_of("broker-b")


class Turns:
    def __init__(self, clock: VirtualClock) -> None:
        self.budget = FrameBudget(clock)
        self.turns = BrokerTurns(clock, self.budget)
        self.done: list[str] = []
        self.gate = asyncio.Event()

    async def wait(self, name: str) -> str:
        await self.gate.wait()
        self.done.append(name)
        return name

    async def at_once(self, name: str) -> str:
        self.done.append(name)
        return name

    async def fail(self) -> None:
        raise ContentError("no registration")


@pytest.fixture
def turns(clock: VirtualClock) -> Turns:
    return Turns(clock)


def test_small_requests_of_an_idle_broker_need_not_wait(turns: Turns) -> None:
    assert not turns.turns.must_wait(KEY, AT_ONCE_SIZE_MAX)
    assert turns.turns.must_wait(KEY, AT_ONCE_SIZE_MAX + 1)


async def test_requests_of_a_broker_keep_their_order_and_others_pass(turns: Turns) -> None:
    first = turns.turns.after_earlier(KEY, turns.wait("first"), 100)
    second = turns.turns.after_earlier(KEY, turns.at_once("second"), 50)
    assert turns.turns.must_wait(KEY)
    assert not turns.turns.must_wait(OTHER)
    other = turns.turns.after_earlier(OTHER, turns.at_once("other"))
    await settle()
    assert (turns.done, other.done()) == (["other"], True)
    assert turns.budget.size == 150
    turns.gate.set()
    assert [await first, await second] == ["first", "second"]
    await settle()
    assert turns.done == ["other", "first", "second"]
    assert not turns.turns.must_wait(KEY)
    assert turns.budget.size == 0


async def test_one_that_fails_or_is_given_up_holds_up_nobody(turns: Turns) -> None:
    failing = turns.turns.after_earlier(KEY, turns.fail(), 10)
    given_up = turns.turns.after_earlier(KEY, turns.at_once("given up"), 10)
    last = turns.turns.after_earlier(KEY, turns.at_once("last"), 10)
    given_up.cancel()
    assert await last == "last"
    assert isinstance(failing.exception(), ContentError)
    await settle()
    assert turns.done == ["last"]
    assert turns.budget.size == 0


async def test_memory_is_given_back_some_time_after_many_bytes_when_none_waits(
    turns: Turns, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_turns, "GIVEN_BACK_AFTER_SIZE", 100)
    given_back, loop = asyncio.Event(), asyncio.get_running_loop()
    monkeypatch.setattr(
        broker_turns,
        "give_back_freed_memory",
        lambda: loop.call_soon_threadsafe(given_back.set),
    )
    first = turns.turns.after_earlier(KEY, turns.wait("first"), 60)
    other = turns.turns.after_earlier(OTHER, turns.at_once("other"), 60)
    await other
    await turns.turns.after_earlier(OTHER, turns.at_once("again"), 60)
    await clock.advance(GIVEN_BACK_AFTER_S + 1)
    assert clock.pending_timers == 1, "somebody waits: it is put off"
    turns.gate.set()
    await first
    await clock.advance(GIVEN_BACK_AFTER_S + 1)
    await given_back.wait()
    assert clock.pending_timers == 0


async def test_others_have_their_turns_while_topics_are_read(clock: VirtualClock) -> None:
    names = [f"T{n}" for n in range(5 * TOPICS_PER_STEP)]
    body = RegisterBrokerBody(
        topic_config_serialize_wrapper=TopicConfigTable(
            topic_config_table={name: TopicConfig(topic_name=name) for name in names}
        )
    ).encode()
    reading = asyncio.ensure_future(
        read_in_slices(clock, body, compressed=False, version=Version.V5_5_0)
    )
    rounds = 0
    while not reading.done():
        await settle(1)
        rounds += 1
    assert rounds > 5
    assert reading.result() == read_registration(body, compressed=False, version=Version.V5_5_0)
