"""The provider under a real Airflow: discovery, hook, triggers, and a sensor within a DAG."""

from __future__ import annotations

import asyncio

import pytest
from airflow.providers.common.messaging.triggers.msg_queue import MessageQueueTrigger
from airflow.providers_manager import ProvidersManager
from support.airflow.orders import BILLING, next_event, send
from support.python_blocks import ROOT, check_blocks

from pocketmq.airflow.hook import PocketMQHook
from pocketmq.airflow.triggers import TELLS_WHAT_IS_KEPT, AwaitMessageTrigger, MessageTrigger
from pocketmq.protocol.errors import ConfigError, IllegalNameError
from pocketmq.testing import AsyncCluster
from pocketmq.testing.clock import settle

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


def test_the_blocks_of_the_page_import_what_there_is() -> None:
    check_blocks(ROOT / "docs" / "airflow.md")


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
    assert [(await next_event(events))["body"] for _ in range(2)] == ["first", "second"]
    await trigger.cleanup()
    other = MessageTrigger(**BILLING, expression="new")
    assert (await next_event(other.run()))["body"] == "second"  # nobody came for the next
    await other.cleanup()


async def test_a_body_that_is_no_text_is_base64(cluster: AsyncCluster) -> None:
    await send(cluster, b"\xff\x00")
    trigger = MessageTrigger(**BILLING)
    payload = await next_event(trigger.run())
    assert payload["bodyBase64"] == "/wA="
    assert payload["keys"] == ["4711"]
    await trigger.cleanup()


async def fired(trigger: AwaitMessageTrigger, *, is_kept: bool) -> str:
    """The message for which a trigger fires, as the triggerer runs it and ends it."""
    events = trigger.run()
    body: str = (await next_event(events))["body"]
    if TELLS_WHAT_IS_KEPT:
        running = asyncio.ensure_future(anext(events))
        await settle(1)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        if is_kept:
            await trigger.on_kill()
    else:
        with pytest.raises(StopAsyncIteration):
            await anext(events)
    await trigger.cleanup()
    return body


async def test_two_that_wait_get_two_messages(cluster: AsyncCluster) -> None:
    await send(cluster, "first", "second")
    triggers = [AwaitMessageTrigger(**BILLING) for _ in range(2)]
    assert [trigger.shared_stream_key() for trigger in triggers] == [None, None]
    assert [await fired(trigger, is_kept=True) for trigger in triggers] == ["first", "second"]
    await cluster.drain("billing")


async def test_the_message_of_a_task_whose_event_is_not_kept_comes_again(
    cluster: AsyncCluster,
) -> None:
    if not TELLS_WHAT_IS_KEPT:
        pytest.skip("Airflow before 3.3 does not tell it")
    await send(cluster, "first")
    for is_kept in (False, True):
        assert await fired(AwaitMessageTrigger(**BILLING), is_kept=is_kept) == "first"
    await cluster.drain("billing")
