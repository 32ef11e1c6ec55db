"""What administration of groups must manage on any cluster: PocketMQ's own and Apache's."""

from __future__ import annotations

import pytest
from support.scenarios.parts import FROM_FIRST, Inbox, fresh, holds

from pocketmq.client import Admin, Message, Producer, PushConsumer, ReceivedMessage, RetryLater
from pocketmq.protocol.errors import GroupMissingError, ResponseError, UsageError


async def a_reset_is_followed(namesrv: str) -> None:
    """Backwards, forwards and to an offset; by consumers that run, and by those that start."""
    topic, group = fresh("topic"), fresh("cg")
    inbox = Inbox()
    async with (
        Admin(namesrv) as admin,
        Producer(fresh("pg"), namesrv) as producer,
        PushConsumer(
            group, namesrv, listener=inbox, consume_from_where=FROM_FIRST, pull_hold_ms=200
        ) as consumer,
    ):
        await admin.create_topic(topic, 1)
        sent = [await producer.send(Message(topic, b"%d" % i)) for i in range(10)]
        await holds(admin, topic, 10)
        consumer.subscribe(topic)
        await inbox.holds(10)
        queue = sent[0].queue
        planned = await admin.reset_offsets(group, topic, to="earliest", dry_run=True)
        assert [(row.queue, row.after) for row in planned] == [(queue, 0)]
        done = await admin.reset_offsets(group, topic, to="earliest")
        assert [(row.queue, row.after) for row in done] == [(queue, 0)]
        await inbox.holds(20)
        assert [m.body for m in inbox.messages[10:]] == [b"%d" % i for i in range(10)]
        with pytest.raises(UsageError, match="offset 11 is outside"):
            await admin.reset_offsets(group, topic, offset=11)
        with pytest.raises(UsageError, match="offset 11 is outside"):
            await admin.reset_offsets(group, topic, offsets={queue: 11})
        planned = await admin.reset_offsets(group, topic, offsets={queue: 7}, dry_run=True)
        assert [(row.queue, row.after) for row in planned] == [(queue, 7)]
        await admin.reset_offsets(group, topic, offset=7, queues=[queue])
        await inbox.holds(23)
        assert [m.queue_offset for m in inbox.messages[20:]] == [7, 8, 9]
    async with Admin(namesrv) as admin:
        (row,) = await admin.consume_stats(group, topic)
        assert (row.consumer_offset, row.lag, row.inflight) == (10, 0, 0)
        since_ms = inbox.messages[4].store_timestamp
        first = next(m.queue_offset for m in inbox.messages if m.store_timestamp >= since_ms)
        done = await admin.reset_offsets(group, topic, timestamp_ms=since_ms)
        assert [(row.before, row.after) for row in done] == [(10, first)]
        again = Inbox()
        async with PushConsumer(group, namesrv, listener=again, pull_hold_ms=200) as consumer:
            consumer.subscribe(topic)
            await again.holds(10 - first)
        await admin.delete_topic(topic)
    assert again.messages[0].queue_offset == first


async def a_consumer_tells_how_it_fares(namesrv: str) -> None:
    """Its queues and figures, and what its listener makes of one message."""
    topic, group = fresh("topic"), fresh("cg")
    inbox = Inbox()

    async def listener(messages: list[ReceivedMessage]) -> RetryLater | None:
        await inbox(messages)
        if messages[0].body == b"bad":
            raise ValueError("what a message")
        return RetryLater() if messages[0].body == b"later" else None

    async with (
        Admin(namesrv) as admin,
        Producer(fresh("pg"), namesrv) as producer,
        PushConsumer(group, namesrv, listener=listener, consume_from_where=FROM_FIRST) as consumer,
    ):
        await admin.create_topic(topic, 2)
        for i in range(6):
            await producer.send(Message(topic, b"%d" % i))
        await holds(admin, topic, 6)
        consumer.subscribe(topic)
        client_id = consumer.instance.client_id
        await inbox.holds(6)
        info = await admin.running_info(group, client_id, stacks=True)
        while sum(q.commit_offset for k, q in info.mq_table.items() if k.topic == topic) < 6:
            info = await admin.running_info(group, client_id, stacks=True)
        assert info.properties["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
        assert topic in {s.topic for s in info.subscription_set}
        assert len([k for k in info.mq_table if k.topic == topic]) == 2
        assert info.status_table[topic].consume_ok_tps > 0
        assert info.jstack
        assert info.status_table[topic].consume_failed_msgs == 0
        status = await admin.consumer_status(group, topic)
        assert {k.queue_id for k in status[client_id]} == {0, 1}
        assert sum(status[client_id].values()) == 6
        with pytest.raises(ResponseError) as e:
            await admin.running_info(group, "nobody")
        assert e.value.code == 206

        other = fresh("topic")
        await admin.create_topic(other, 1)
        outcomes: list[str | None] = []
        for body in (b"good", b"later", b"bad"):
            sent = await producer.send(Message(other, body))
            await holds(admin, other, len(outcomes) + 1)
            result = await admin.consume_directly(group, client_id, sent.offset_msg_id)
            outcomes.append(result.consume_result)
        assert outcomes == ["CR_SUCCESS", "CR_LATER", "CR_THROW_EXCEPTION"]
        assert result.remark == "ValueError: what a message"
        assert [m.body for m in inbox.messages[6:]] == [b"good", b"later", b"bad"]
        assert await admin.topic_groups(topic) == [group]
        for name in (topic, other):
            await admin.delete_topic(name)


async def groups_are_administered(namesrv: str) -> None:
    """Created, changed, found, cloned, deleted with their topics."""
    topic, group, twin = fresh("topic"), fresh("cg"), fresh("twin")
    async with Admin(namesrv) as admin, Producer(fresh("pg"), namesrv) as producer:
        await admin.create_topic(topic, 1)
        await admin.create_group(group)
        await admin.update_group(group, retry_max_times=5, consume_broadcast_enable=False)
        (config,) = (await admin.group_configs(group)).values()
        assert (config.retry_max_times, config.consume_broadcast_enable) == (5, False)
        assert config.consume_enable
        with pytest.raises(GroupMissingError, match="there is no group"):
            await admin.update_group(fresh("none"), consume_enable=False)
        assert await admin.consumers(group) == {}
        queue = (await producer.send(Message(topic, b"x"))).queue
        await holds(admin, topic, 1)
        await admin.commit_offset(group, queue, 1)
        assert await admin.group_topics(group) == [topic]
        await admin.create_group(twin)
        await admin.clone_offsets(group, twin, topic)
        (row,) = await admin.consume_stats(twin, topic)
        assert row.consumer_offset == 1
        for name in (group, twin):
            await admin.delete_group(name, clean_offset=True)
        assert not {group, twin} & set(await admin.groups())
        with pytest.raises(GroupMissingError):
            await admin.delete_group(group)
        await admin.delete_topic(topic)


GROUP_SCENARIOS = [groups_are_administered, a_reset_is_followed, a_consumer_tells_how_it_fares]
