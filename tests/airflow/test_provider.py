"""The provider under a real Airflow: discovery, hook, triggers, and a sensor within a DAG."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from airflow.providers.common.messaging.triggers.msg_queue import MessageQueueTrigger
from airflow.providers_manager import ProvidersManager
from airflow.triggers.base import TriggerEvent
from airflow.triggers.shared_stream import SharedStreamManager

from pocketmq.airflow.hook import PocketMQHook
from pocketmq.airflow.triggers import AwaitMessageTrigger, MessageTrigger
from pocketmq.client import Message
from pocketmq.protocol.errors import ConfigError, IllegalNameError
from pocketmq.testing import AsyncCluster

BILLING: dict[str, Any] = {"topic": "Orders", "group": "billing"}
WAIT_S = 20.0


async def send(cluster: AsyncCluster, *bodies: str | bytes, tags: str = "new") -> None:
    async with cluster.producer() as producer:
        for body in bodies:
            await producer.send(Message("Orders", body, keys="4711", tags=tags))


async def body_of(events: AsyncIterator[TriggerEvent]) -> str:
    event = await asyncio.wait_for(anext(events), WAIT_S)
    json.dumps(event.payload)
    body: str = event.payload["body"]
    return body


# -- discovery ------------------------------------------------------------------------------------


def test_airflow_finds_the_provider() -> None:
    manager = ProvidersManager()
    assert manager.providers["pocketmq"].data["name"] == "PocketMQ"
    hook = manager.hooks["pocketmq"]
    assert hook is not None
    assert (hook.hook_class_name, hook.hook_name) == (
        "pocketmq.airflow.hook.PocketMQHook",
        "PocketMQ",
    )
    assert "pocketmq.airflow.queue_provider.PocketMQMessageQueueProvider" in (
        manager.queue_class_names
    )


@pytest.mark.parametrize("scheme", ["pocketmq", "rocketmq"])
def test_a_scheme_of_a_queue_is_a_trigger(scheme: str) -> None:
    path, arguments = MessageQueueTrigger(scheme=scheme, **BILLING, expression="new").serialize()
    assert path == "pocketmq.airflow.triggers.MessageTrigger"
    again = MessageTrigger(**arguments)
    assert again.serialize() == (path, arguments)
    assert arguments["expression"] == "new"
    assert MessageTrigger.hash(path, arguments) == MessageTrigger.hash(*again.serialize())


def test_a_uri_of_a_queue_is_a_trigger() -> None:
    with pytest.warns(DeprecationWarning, match="queue"):
        trigger = MessageQueueTrigger(queue="rocketmq://a,b:1/Orders", group="billing")
    _, arguments = trigger.serialize()
    assert arguments["topic"] == "Orders"
    assert arguments["namesrv"] == "a:9876;b:1"


def test_a_uri_without_a_topic_is_refused() -> None:
    with pytest.warns(DeprecationWarning, match="queue"):
        trigger = MessageQueueTrigger(queue="pocketmq://a", group="billing")
    with pytest.raises(ConfigError, match="names no topic"):
        trigger.serialize()


# -- the hook -------------------------------------------------------------------------------------


async def test_the_hook_sends(cluster: AsyncCluster) -> None:
    hook = PocketMQHook()
    assert await asyncio.to_thread(hook.test_connection) == (True, "brokers: broker-a")
    await asyncio.to_thread(hook.send, "Orders", "x", keys="4711", tags="new")
    (message,) = await cluster.published("Orders")
    assert (message.body, message.keys, message.tags) == (b"x", ("4711",), "new")


async def test_a_connection_that_does_not_fit_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_EMPTY", '{"conn_type": "pocketmq"}')
    works, text = await asyncio.to_thread(PocketMQHook("empty").test_connection)
    assert (works, text[:34]) == (False, "the connection empty has no host: ")
    with pytest.raises(ConfigError, match="the connection empty has no host"):
        await anext(MessageTrigger(**BILLING, conn_id="empty").run())
    with pytest.raises(IllegalNameError):
        await anext(MessageTrigger("a topic", "billing", namesrv="127.0.0.1:1").run())


# -- triggers that run by themselves ---------------------------------------------------------------


async def test_a_trigger_fires_for_each_message(cluster: AsyncCluster) -> None:
    await send(cluster, "old", tags="old")
    await send(cluster, "first", "second")
    trigger = MessageTrigger(**BILLING, expression="new")
    events = trigger.run()
    assert [await body_of(events) for _ in range(2)] == ["first", "second"]
    await trigger.cleanup()
    other = MessageTrigger(**BILLING, expression="new")
    assert await body_of(other.run()) == "second"  # nobody came for the next
    await other.cleanup()


async def test_a_body_that_is_no_text_is_base64(cluster: AsyncCluster) -> None:
    await send(cluster, b"\xff\x00")
    trigger = MessageTrigger(**BILLING)
    event = await asyncio.wait_for(anext(trigger.run()), WAIT_S)
    assert event.payload["bodyBase64"] == "/wA="
    assert event.payload["keys"] == ["4711"]
    await trigger.cleanup()


async def test_two_that_wait_get_two_messages(cluster: AsyncCluster) -> None:
    await send(cluster, "first", "second")
    triggers = [AwaitMessageTrigger(**BILLING) for _ in range(2)]
    assert [trigger.shared_stream_key() for trigger in triggers] == [None, None]
    fired = [[event async for event in trigger.run()] for trigger in triggers]
    for trigger in triggers:
        await trigger.cleanup()
    assert [[event.payload["body"] for event in events] for events in fired] == [
        ["first"],
        ["second"],
    ]
    await cluster.drain("billing")


# -- triggers of assets, as the triggerer runs them ------------------------------------------------


class Triggerer:
    """What a triggerer does with a trigger that shares its messages."""

    def __init__(self, ack_timeout: float = 300) -> None:
        self.streams = SharedStreamManager(ack_timeout=ack_timeout)
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
        body = await body_of(self.events)
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
