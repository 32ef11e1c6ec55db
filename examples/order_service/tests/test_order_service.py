"""The order service on a cluster of the tests' own: hours pass at once, faults come on order."""

from __future__ import annotations

import json

import pytest
from order_service import EVENTS, REMINDERS, Billing, History, OrderDesk, Stock

from pocketmq.testing import AsyncCluster

pytestmark = pytest.mark.pocketmq(topics={EVENTS: 4, REMINDERS: 1}, groups=["history", "billing"])


async def test_the_events_of_an_order_are_handled_in_their_order(pocketmq: AsyncCluster) -> None:
    history = History(**pocketmq.client_settings)
    async with OrderDesk(Stock(), **pocketmq.client_settings) as desk, history.consumer:
        history.consumer.subscribe(EVENTS)
        for event in ("paid", "packed", "sent", "delivered"):
            for order in ("o1", "o2", "o3"):
                await desk.tell(order, event)
        await pocketmq.published(EVENTS, 12)
        await pocketmq.drain("history")
    assert history.of == {o: ["paid", "packed", "sent", "delivered"] for o in ("o1", "o2", "o3")}


async def test_an_order_is_announced_only_if_the_article_is_there(pocketmq: AsyncCluster) -> None:
    async with OrderDesk(Stock(book=1), **pocketmq.client_settings) as desk:
        await desk.order("o1", "book")
        await desk.order("o2", "book")
        announced = await pocketmq.published(EVENTS)
    assert [json.loads(body)["order"] for body in announced.bodies] == ["o1"]


async def test_an_answer_that_is_lost_is_asked_for(pocketmq: AsyncCluster) -> None:
    async with OrderDesk(Stock(book=1), **pocketmq.client_settings) as desk:
        with pocketmq.faults.drop_request(request="END_TRANSACTION", times=1) as lost:
            await desk.order("o1", "book")
            assert await pocketmq.published(EVENTS) == []
        assert lost.count == 1
        await pocketmq.clock.advance(minutes=1)
        assert len(await pocketmq.published(EVENTS)) == 1


async def test_a_reminder_comes_after_two_hours(pocketmq: AsyncCluster) -> None:
    async with OrderDesk(Stock(book=1), **pocketmq.client_settings) as desk:
        await desk.order("o1", "book")
    await pocketmq.clock.advance(minutes=119)
    assert await pocketmq.published(REMINDERS) == []
    await pocketmq.clock.advance(minutes=1)
    assert (await pocketmq.published(REMINDERS)).bodies == [b"o1"]


async def test_what_cannot_be_billed_is_given_up_in_the_end(pocketmq: AsyncCluster) -> None:
    billing = Billing({"book": 20}, **pocketmq.client_settings)
    async with (
        OrderDesk(Stock(book=1, lamp=1), **pocketmq.client_settings) as desk,
        billing.consumer,
    ):
        billing.consumer.subscribe(EVENTS)
        await desk.order("o1", "book")
        await desk.order("o2", "lamp")
        await pocketmq.published(EVENTS, 2)
        await pocketmq.clock.advance(hours=4)
        assert pocketmq.dead_letters("billing") == []
        await pocketmq.clock.advance(hours=1)
    assert billing.bills == {"o1": 20}
    (given_up,) = pocketmq.dead_letters("billing")
    assert given_up.keys == ("o2",)


async def test_a_price_that_comes_later_is_soon_enough(pocketmq: AsyncCluster) -> None:
    billing = Billing({}, **pocketmq.client_settings)
    async with (
        OrderDesk(Stock(book=1), **pocketmq.client_settings) as desk,
        billing.consumer,
    ):
        billing.consumer.subscribe(EVENTS)
        await desk.order("o1", "book")
        await pocketmq.published(EVENTS, 1)
        await pocketmq.clock.advance(seconds=5)
        billing.prices["book"] = 20
        await pocketmq.clock.advance(seconds=10)
    assert billing.bills == {"o1": 20}
