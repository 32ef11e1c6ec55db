"""Topics and their administration on any cluster: PocketMQ's own and Apache's."""

from __future__ import annotations

import pytest
from support.scenarios.parts import fresh

from pocketmq.client import Admin, Message, Producer, PullConsumer, SendStatus, UnknownTopicError
from pocketmq.protocol.errors import NotFoundError, ResponseError


async def unknown_topics(namesrv: str) -> None:
    """Created on the first send, unknown to read."""
    topic = fresh("auto")
    async with Producer(fresh("pg"), namesrv) as producer, Admin(namesrv) as admin:
        with pytest.raises(UnknownTopicError):
            await admin.topic_route(topic)
        assert (await producer.send(Message(topic, b"x"))).status is SendStatus.SEND_OK
        assert len(await producer.queues(topic)) % 4 == 0
        address = (await admin.brokers())[0].address
        await admin.delete_topic(topic)
        with pytest.raises((ResponseError, NotFoundError)):
            await admin.topic_config(topic, address)


async def topics_are_administered(namesrv: str) -> None:
    """Create, widen, narrow, forbid, list, delete; groups and KV configuration."""
    topic, group = fresh("topic"), fresh("cg")
    async with Admin(namesrv) as admin:
        addresses = await admin.create_topic(topic, 2)
        masters = [b for b in await admin.brokers() if b.broker_id == 0]
        assert sorted(addresses) == sorted(b.address for b in masters)
        await admin.update_topic(topic, read_queues=6, write_queues=3)
        for data in (await admin.topic_route(topic)).queue_datas:
            assert (data.read_queue_nums, data.write_queue_nums, data.perm) == (6, 3, 6)
        await admin.update_topic(topic, perm=4)
        config = await admin.topic_config(topic, addresses[0])
        assert (config.read_queue_nums, config.write_queue_nums, config.perm) == (6, 3, 4)
        assert topic in await admin.topics()
        assert topic in await admin.topics(cluster=masters[0].cluster)
        assert (await admin.broker_runtime(addresses[0]))["brokerVersionDesc"]
        assert (await admin.broker_config(addresses[0]))["brokerName"] == masters[0].broker_name
        assert topic not in await admin.groups()
        async with PullConsumer(group, namesrv) as consumer:
            (first, *_) = await consumer.queues(topic)
            await consumer.pull(first, 0)
        assert group in await admin.groups()
        settings = await admin.group_config(group, addresses[0])
        settings.retry_max_times = 3
        await admin.create_group(settings, broker_addr=addresses[0])
        assert (await admin.group_config(group, addresses[0])).retry_max_times == 3
        # Without clean_offset Apache's broker (5.5.0, groups created on first use) keeps the group.
        await admin.delete_group(group, clean_offset=True, broker_addr=addresses[0])
        with pytest.raises(NotFoundError):
            await admin.group_config(group, addresses[0])
        space = fresh("space")
        await admin.kv_put(space, "key", "value")
        assert await admin.kv_get(space, "key") == "value"
        assert await admin.kv_list(space) == {"key": "value"}
        await admin.kv_delete(space, "key")
        assert await admin.kv_get(space, "key") is None
        assert await admin.kv_list(fresh("space")) == {}
        await admin.delete_topic(topic)
        assert topic not in await admin.topics()
