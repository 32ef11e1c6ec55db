"""Questions that the broker passes on to consumers: 223, 307, 309."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import pytest_asyncio
from support.brokers.broker_parts import GROUP, TOPIC, Client, Refusal, Stage
from support.peers.transport import until

from pocketmq.broker.groups.client_calls import CALL_TIMEOUT_MS, STATUS_TIMEOUT_MS
from pocketmq.protocol.bodies.clients import Subscription
from pocketmq.protocol.bodies.groups import ConsumeDirectlyResult, ConsumerStatus, RunningInfo
from pocketmq.protocol.bodies.topics import QueueKey
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.messages.records import decode_records
from pocketmq.protocol.requests.groups import (
    ConsumeDirectlyRequest,
    ConsumerStatusRequest,
    RunningInfoRequest,
)
from pocketmq.protocol.wire.command import Command
from pocketmq.testing.clock import VirtualClock
from pocketmq.transport.connection import Connection

INFO = RequestCode.GET_CONSUMER_RUNNING_INFO
DIRECTLY = RequestCode.CONSUME_MESSAGE_DIRECTLY
STATUS = RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT
ASK = RunningInfoRequest(consumer_group=GROUP, client_id="client-1", jstack_enable=True)


@pytest_asyncio.fixture
async def consumer(stage: Stage, client: Client) -> Client:
    """A member of the group."""
    return await joined(stage, client, "client-1")


async def joined(stage: Stage, client: Client, client_id: str) -> Client:
    member = stage.client(client.broker)
    await member.heartbeat(Subscription.of_tags(TOPIC, "*", 1), client_id=client_id)
    return member


def silent(_: Command, __: Connection) -> None:
    """Never answers."""


async def test_a_consumer_tells_how_it_fares(client: Client, consumer: Client) -> None:
    def answer(command: Command, _: Connection) -> Command:
        assert command.read(RunningInfoRequest) == ASK
        return Command(0, body=RunningInfo(properties={"a": "b"}).encode())

    consumer.handlers[INFO] = answer
    assert RunningInfo.decode((await client.ask(ASK)).body).properties == {"a": "b"}


async def test_what_a_consumer_refuses_is_passed_on(client: Client, consumer: Client) -> None:
    consumer.handlers[INFO] = lambda *_: Command(1, remark="not now")
    assert await client.refusal(ASK) == (1, "not now")


@pytest.mark.parametrize(("group", "client_id"), [(GROUP, "client-9"), ("unknown", "client-1")])
async def test_who_is_not_there_cannot_be_asked(
    client: Client, consumer: Client, group: str, client_id: str
) -> None:
    code, remark = await client.refusal(
        RunningInfoRequest(consumer_group=group, client_id=client_id)
    )
    assert code == 1
    assert remark.startswith(f"The Consumer <{group}> <{client_id}> not online")
    assert ("client-1" in remark.partition("online")[2]) == (group == GROUP)


async def test_a_consumer_that_does_not_answer(
    client: Client, consumer: Client, clock: VirtualClock
) -> None:
    consumer.handlers[INFO] = silent
    asked = asyncio.ensure_future(client.refusal(ASK))
    (connection,) = (c for g, group in client.broker.parts.members.consumers for c in group.members)
    await until(lambda: connection.pending_calls)
    await clock.advance(CALL_TIMEOUT_MS / 1000)
    code, remark = await asked
    assert (code, "Timeout" in remark) == (207, True)


async def test_a_consumer_that_is_lost_meanwhile(client: Client, consumer: Client) -> None:
    consumer.handlers[INFO] = silent
    asked = asyncio.ensure_future(client.refusal(ASK))
    (connection,) = (c for g, group in client.broker.parts.members.consumers for c in group.members)
    await until(lambda: connection.pending_calls)
    await consumer.close()
    code, remark = await asked
    assert (code, "Exception" in remark) == (1, True)


async def test_a_message_is_handled_by_one_consumer(client: Client, consumer: Client) -> None:
    msg_id = (await client.send(b"handle me", queue_id=2)).msg_id
    seen: list[ConsumeDirectlyRequest] = []

    def answer(command: Command, _: Connection) -> Command:
        seen.append(command.read(ConsumeDirectlyRequest))
        (message,) = decode_records(command.body)
        assert (message.body, message.queue_id) == (b"handle me", 2)
        return Command(0, body=ConsumeDirectlyResult(consume_result="CR_SUCCESS").encode())

    consumer.handlers[DIRECTLY] = answer
    request = ConsumeDirectlyRequest(
        consumer_group=GROUP, client_id="client-1", msg_id=msg_id, topic=TOPIC
    )
    result = ConsumeDirectlyResult.decode((await client.ask(request)).body)
    assert result.consume_result == "CR_SUCCESS"
    (passed,) = seen
    assert (passed.broker_name, passed.topic_sys_flag, passed.group_sys_flag) == ("broker-a", 0, 0)

    async def refused(**fields: str | None) -> Refusal:
        given: dict[str, Any] = {"client_id": "client-1", "msg_id": msg_id}
        return await client.refusal(
            ConsumeDirectlyRequest(consumer_group=GROUP, **(given | fields))
        )

    assert (await refused(msg_id=msg_id[:-2] + "FF")).code == 1
    assert (await refused(msg_id="nonsense")).code == 29
    assert (await refused(msg_id=None)).code == 29
    assert (await refused(client_id=None)).code == 29
    assert (await refused(client_id="client-2")).code == 1


async def test_all_members_tell_where_they_stand(
    stage: Stage, client: Client, consumer: Client, clock: VirtualClock
) -> None:
    def at(offset: int) -> Command:
        table = {QueueKey("broker-a", 0, TOPIC): offset}
        return Command(0, body=ConsumerStatus(message_queue_table=table).encode())

    others = [await joined(stage, client, f"client-{i}") for i in (2, 3, 4)]
    consumer.handlers[STATUS] = lambda *_: at(1)
    others[0].handlers[STATUS] = lambda *_: at(2)
    others[1].handlers[STATUS] = silent
    others[2].handlers[STATUS] = lambda *_: Command(0, body=b"nonsense")

    async def status(client_id: str | None = None) -> dict[str, int]:
        request = ConsumerStatusRequest(topic=TOPIC, group=GROUP, client_addr=client_id)
        asked = asyncio.ensure_future(client.ask(request))
        while not asked.done():
            await clock.advance(STATUS_TIMEOUT_MS / 1000)
        table = ConsumerStatus.decode((await asked).body).consumer_table
        return {name: sum(offsets.values()) for name, offsets in table.items()}

    assert await status() == {"client-1": 1, "client-2": 2}
    assert await status("client-2") == {"client-2": 2}
    assert await status("client-9") == {}
    request = ConsumerStatusRequest(topic=TOPIC, group="unknown")
    assert (await client.refusal(request)).code == 1
