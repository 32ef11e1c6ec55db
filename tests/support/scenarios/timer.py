"""Timers and their recall on any cluster: PocketMQ's own and Apache's."""

from __future__ import annotations

import pytest
from support.scenarios.parts import HOLD_MS, fresh, holds

from pocketmq.client import Admin, Message, Producer, PullConsumer, ReceivedMessage
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import IllegalMessageError, ResponseError
from pocketmq.protocol.messages.recall_handle import parse_recall_handle


async def timers_and_recalls(namesrv: str) -> None:
    """Messages come when they asked to, never early, unless they were recalled before."""
    topic = fresh("timers")
    async with (
        Admin(namesrv) as admin,
        Producer(fresh("pg"), namesrv) as producer,
        PullConsumer(fresh("cg"), namesrv) as consumer,
    ):
        await admin.create_topic(topic, 1)
        (queue,) = await producer.queues(topic)
        past = await producer.send(Message(topic, b"past", deliver_at_ms=1))
        begun_ms = producer.instance.clock.now_ms()
        late = await producer.send(Message(topic, b"late", tags="A", delay_ms=2500))
        gone = await producer.send(Message(topic, b"gone", delay_ms=2000))
        level = await producer.send(
            Message(topic, b"level", delay_level=1, properties={"TIMER_DELAY_SEC": "90"})
        )
        assert past.recall_handle is None
        assert level.recall_handle is None
        assert gone.recall_handle is not None
        assert late.recall_handle is not None
        assert await producer.recall(topic, gone.recall_handle) == gone.msg_id
        for properties in ({"TIMER_DELAY_SEC": "soon"}, {"TIMER_DELAY_SEC": "259300"}):
            with pytest.raises(IllegalMessageError, match="timer message illegal"):
                await producer.send(Message(topic, b"never", properties=properties))
        # A recall names its time: one that is over is refused, whether or not there is a message.
        over = parse_recall_handle(late.recall_handle)._replace(timestamp_ms=begun_ms)
        with pytest.raises(ResponseError, match="timestamp invalid") as caught:
            await producer.recall(topic, over.encode())
        assert caught.value.code == ResponseCode.ILLEGAL_OPERATION

        found: list[ReceivedMessage] = []
        while len(found) < 3:
            found += (await consumer.pull(queue, len(found), hold_ms=HOLD_MS)).messages
        assert [m.body for m in found] == [b"past", b"level", b"late"]
        message = found[2]
        assert message.store_timestamp >= begun_ms + 2500
        assert message.msg_id == late.msg_id
        expected = {"TAGS": "A", "TIMER_DELAY_MS": "2500", "REAL_TOPIC": topic, "REAL_QID": "0"}
        assert message.properties.items() >= expected.items()
        slot_ms = parse_recall_handle(late.recall_handle).timestamp_ms - 1
        assert message.properties["TIMER_OUT_MS"] == str(slot_ms)
        assert message.properties.keys() >= {"TIMER_ENQUEUE_MS", "TIMER_DEQUEUE_MS"}
        assert "TIMER_DELAY_SEC" not in found[1].properties
        assert found[0].properties["TIMER_DELIVER_MS"] == "1"
        assert "TIMER_OUT_MS" not in found[0].properties
        await holds(admin, topic, 3)
        await admin.delete_topic(topic)
