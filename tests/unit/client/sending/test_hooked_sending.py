"""What hooks of a producer see, change and refuse, against brokers that answer as told."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from support.peers.client import Cluster, code, done

from pocketmq.client import (
    CheckForbiddenContext,
    CommunicationMode,
    Message,
    MessageQueue,
    MessageType,
    PackMessagesContext,
    Producer,
    SendForbiddenError,
    SendHooks,
    SendMessageContext,
    SendResult,
)
from pocketmq.client.hooks import COMMON
from pocketmq.client.sending.hooked_sending import message_type
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.errors import MessageSizeError, PocketMQError, ResponseError
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.batch import decode_batch
from pocketmq.protocol.requests.sending import SendMessageV2Request

SEND = RequestCode.SEND_MESSAGE_V2


class Watcher:
    """Hooks that note their contexts as they are at each call."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, SendMessageContext]] = []
        self.checked: list[CheckForbiddenContext] = []
        self.hooks = SendHooks(
            forbidden=[self.checked.append],
            before=[lambda context: self.calls.append(("before", context))],
            after=[lambda context: self.calls.append(("after", context))],
        )

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.calls]

    @property
    def last(self) -> SendMessageContext:
        return self.calls[-1][1]


async def producer(cluster: Cluster, hooks: SendHooks, **settings: Any) -> Producer:
    """A started producer, and topic T on brokers a and b."""
    await cluster.add_namesrv()
    for name in ("a", "b"):
        await cluster.add_broker(name)
    for topic in ("T", "shop%T"):
        cluster.topic(topic, "a", "b")
    namespace = settings.pop("namespace", "")
    client = cluster.client(namespace=namespace)
    await client.start()
    made = Producer("pg", instance=client, hooks=hooks, **settings)
    await made.start()
    return made


def properties_at(cluster: Cluster, broker: str) -> dict[str, str]:
    return props.decode(
        cluster.brokers[broker].last(SEND).read(SendMessageV2Request).properties or ""
    )


async def test_one_send_from_before_to_after(cluster: Cluster) -> None:
    watcher = Watcher()
    made = await producer(cluster, watcher.hooks)
    message, queue = Message("T", b"x", delay_level=3), MessageQueue("T", "b", 1)
    result = await done(made.send(message, queue=queue))
    (checked,) = watcher.checked
    address = cluster.brokers["b"].address
    assert (checked.group, [*checked.messages], checked.queue) == ("pg", [message], queue)
    assert (checked.broker_addr, checked.mode) == (address, CommunicationMode.SYNC)
    assert watcher.names == ["before", "after"]
    assert watcher.calls[0][1] is watcher.last
    context = watcher.last
    assert ([*context.messages], context.queue, context.broker_addr) == ([message], queue, address)
    assert (context.message_type, context.result, context.error) == (
        MessageType.DELAY, result, None
    )  # fmt: skip


async def test_each_attempt_calls_them(cluster: Cluster) -> None:
    watcher = Watcher()
    made = await producer(cluster, watcher.hooks)
    busy = code(ResponseCode.SYSTEM_BUSY)
    for broker in cluster.brokers.values():
        broker.answers[SEND] = busy
    with pytest.raises(PocketMQError):
        await done(made.send(Message("T", b"x")))
    assert watcher.names == ["before", "after"] * 3
    assert isinstance(watcher.last.error, ResponseError)
    assert watcher.last.result is None


async def test_a_hook_may_add_properties(cluster: Cluster) -> None:
    def sign(context: SendMessageContext) -> None:
        context.messages[0].properties["signed"] = "ü"

    made = await producer(cluster, SendHooks(before=[sign]))
    await done(made.send(Message("T", b"x"), queue=MessageQueue("T", "a", 0)))
    assert properties_at(cluster, "a")["signed"] == "ü"


async def test_a_check_refuses_every_kind_of_send(cluster: Cluster) -> None:
    modes: list[CommunicationMode] = []

    def forbid(context: CheckForbiddenContext) -> None:
        modes.append(context.mode)
        raise PermissionError("not on Sundays")

    watcher = Watcher()
    made = await producer(cluster, SendHooks(forbidden=[forbid]) + watcher.hooks)
    message = Message("T", b"x")
    outcome: asyncio.Future[SendResult | PocketMQError] = asyncio.Future()
    made.send_async(message, outcome.set_result)
    assert isinstance(await done(outcome), SendForbiddenError)
    for send in (made.send(message), made.send_oneway(message), made.send_batch([message])):
        with pytest.raises(SendForbiddenError, match="not on Sundays") as caught:
            await done(send)
        assert isinstance(caught.value.__cause__, PermissionError)
    assert modes == [
        CommunicationMode.ASYNC, CommunicationMode.SYNC, CommunicationMode.ONEWAY,
        CommunicationMode.SYNC,
    ]  # fmt: skip
    assert not any(b.count(SEND) for b in cluster.brokers.values())
    assert watcher.calls == []


async def test_hooks_that_raise_are_logged_and_disturb_nothing(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(context: SendMessageContext) -> None:
        raise RuntimeError("the hook is broken")

    watcher = Watcher()
    made = await producer(cluster, SendHooks(before=[fail], after=[fail]) + watcher.hooks)
    with caplog.at_level(logging.ERROR, "pocketmq.client"):
        await done(made.send(Message("T", b"x")))
        await done(made.send_oneway(Message("T", b"x")))
    assert watcher.names == ["before", "after"] * 2
    assert [r.exc_info is not None for r in caplog.records] == [True] * 4


async def test_the_messages_of_a_batch_come_together(cluster: Cluster) -> None:
    watcher = Watcher()
    made = await producer(cluster, watcher.hooks)
    messages = [Message("T", b"%d" % i) for i in range(3)]
    (result,) = await done(made.send_batch(messages))
    assert [*watcher.last.messages] == messages
    assert watcher.last.result == result


async def test_a_batch_is_packed_with_what_hooks_add(cluster: Cluster) -> None:
    groups: list[tuple[str, str]] = []

    def number(context: PackMessagesContext) -> None:
        groups.append((context.group, context.namespace))
        for i, message in enumerate(context.messages):
            message.properties["number"] = str(i)

    watcher = Watcher()
    made = await producer(cluster, watcher.hooks + SendHooks(packing=[number]))
    await done(
        made.send_batch([Message("T", b"x") for _ in range(3)], queue=MessageQueue("T", "b", 0))
    )
    entries = decode_batch(cluster.brokers["b"].last(RequestCode.SEND_BATCH_MESSAGE).body)
    sent = [props.decode(properties.decode()) for _, _, properties in entries]
    assert [properties["number"] for properties in sent] == ["0", "1", "2"]
    assert (groups, watcher.last.is_batch) == ([("pg", "")], True)
    await done(made.send(Message("T", b"x")))
    assert (len(groups), watcher.last.is_batch) == (1, False)


async def test_what_cannot_be_encoded_after_hooks_ends_as_an_attempt(cluster: Cluster) -> None:
    def grow(context: SendMessageContext) -> None:
        context.messages[0].properties["huge"] = "x" * (props.PROPERTIES_SIZE_MAX + 1)

    watcher = Watcher()
    made = await producer(cluster, SendHooks(before=[grow]) + watcher.hooks)
    for send in (made.send(Message("T", b"x")), made.send_oneway(Message("T", b"x"))):
        with pytest.raises(MessageSizeError):
            await done(send)
        assert watcher.names[-2:] == ["before", "after"]
        assert isinstance(watcher.last.error, MessageSizeError)
    assert not any(b.count(SEND) for b in cluster.brokers.values())


async def test_common_hooks_are_called_after_those_of_a_client(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[str] = []
    common = SendHooks(before=[lambda context: called.append("common")])
    monkeypatch.setattr(COMMON, "sending", common)
    made = await producer(cluster, SendHooks(before=[lambda context: called.append("own")]))
    monkeypatch.undo()
    await done(made.send(Message("T", b"x")))
    assert called == ["own", "common"]


async def test_hooks_see_names_without_their_namespace(cluster: Cluster) -> None:
    watcher = Watcher()
    made = await producer(cluster, watcher.hooks, namespace="shop")
    result = await done(made.send(Message("T", b"x")))
    context = watcher.last
    assert (context.group, context.queue, context.namespace) == ("pg", result.queue, "shop")
    assert result.queue.topic == "T"


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({}, MessageType.NORMAL),
        ({"TRAN_MSG": "true"}, MessageType.TRANSACTION_HALF),
        ({"DELAY": "3"}, MessageType.DELAY),
        ({"TIMER_DELAY_MS": "5"}, MessageType.DELAY),
    ],
)
def test_kinds_of_messages(properties: dict[str, str], expected: MessageType) -> None:
    assert message_type(Message("T", b"x", properties=properties)) is expected
