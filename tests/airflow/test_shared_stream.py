"""Triggers of assets as the triggerer runs them since Airflow 3.3: with acknowledgements."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from support.airflow.orders import BILLING, WAIT_S, next_event, send

from pocketmq.airflow.triggers import MessageTrigger
from pocketmq.testing import AsyncCluster

shared_stream = pytest.importorskip("airflow.triggers.shared_stream")


class Triggerer:
    """What a triggerer does with a trigger that shares its messages."""

    def __init__(self) -> None:
        self.streams = shared_stream.SharedStreamManager()
        self.trigger = MessageTrigger(**BILLING, invisible_ms=10_000)
        self.key = self.trigger.shared_stream_key()

    async def __aenter__(self) -> Triggerer:
        raw = self.streams.subscribe(trigger_id=1, trigger=self.trigger, key=self.key)
        self.events = self.trigger.filter_shared_stream(raw)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.streams.unsubscribe(1, self.key)
        await self.streams.stop_all()

    async def fired(self) -> tuple[str, int]:
        """An event, and the number by which the database's word is given."""
        body = (await next_event(self.events))["body"]
        number = self.streams.bind_pending_event(trigger_id=1, key=self.key)
        assert number is not None
        return body, number


@pytest_asyncio.fixture
async def triggerer() -> AsyncIterator[Triggerer]:
    async with Triggerer() as triggerer:
        yield triggerer


async def test_a_message_is_acknowledged_when_its_event_is_kept(
    cluster: AsyncCluster, triggerer: Triggerer
) -> None:
    await send(cluster, "first", "second")
    first, number = await triggerer.fired()
    second, _ = await triggerer.fired()
    assert (first, second) == ("first", "second")
    triggerer.streams.confirm_persisted([number])
    async with cluster.admin() as admin:
        while (await admin.consume_stats("billing", "Orders"))[0].lag != 1:
            triggerer.streams.confirm_persisted([])


async def test_a_message_whose_event_is_not_kept_comes_again(cluster: AsyncCluster) -> None:
    await send(cluster, "first")
    async with Triggerer() as triggerer:
        assert (await triggerer.fired())[0] == "first"
    async with Triggerer() as triggerer:
        assert (await triggerer.fired())[0] == "first"


async def test_what_triggers_reject_is_a_dead_letter_and_what_they_fail_comes_again(
    cluster: AsyncCluster,
) -> None:
    await send(cluster, "rejected", "failed")
    _, arguments = MessageTrigger(**BILLING, invisible_ms=10_000).serialize()
    producer = MessageTrigger.create_shared_stream_producer(arguments)
    stream = producer.open_stream()
    for outcome in ({"failed": 0, "rejected": 1}, {"failed": 1, "rejected": 0}):
        _, message = await asyncio.wait_for(anext(stream), WAIT_S)
        outcome = shared_stream.AdvanceOutcome(acked=0, **outcome)
        await producer.advance([shared_stream.AdvanceItem(message, outcome)])
    await cluster.expect("%DLQ%billing", "rejected")
    coming = asyncio.ensure_future(anext(stream))
    await cluster.clock.advance(seconds=15)
    document, message = await asyncio.wait_for(coming, WAIT_S)
    assert (document["body"], message.reconsume_times) == ("failed", 1)
    await producer.aclose()
