"""Replies on a running broker: handed to the requester by its client id, and kept."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from support.brokers.broker_parts import Client, Stage, send_request
from support.peers.transport import until

from pocketmq.broker.handlers.sending.replies import PUSH_TIMEOUT_MS
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.requests.sending import (
    PushReplyRequest,
    SendMessageResponse,
    SendReplyLongRequest,
    SendReplyRequest,
)
from pocketmq.protocol.wire.command import Command
from pocketmq.testing.clock import VirtualClock
from pocketmq.transport.connection import Connection
from pocketmq.transport.pool import ConnectionPool

REPLY_TOPIC = "DefaultCluster_REPLY_TOPIC"
PUSH = RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT


@pytest_asyncio.fixture
async def stage(tmp_path: Path, clock: VirtualClock, seed: int) -> AsyncIterator[Stage]:
    async with Stage(tmp_path, clock, seed) as running:
        yield running


def reply(to: str | None = "asker", cls: type = SendReplyRequest, **fields: Any) -> Any:
    """A reply to a client, but for the fields given."""
    known = {"CORRELATION_ID": "c-1", "MSG_TYPE": "reply", "TTL": "3000"}
    if to is not None:
        known["REPLY_TO_CLIENT"] = to
    given: dict[str, Any] = {"topic": REPLY_TOPIC, "properties": props.encode(known)}
    sent = send_request(**(given | fields))
    return cls(**{name: getattr(sent, name) for name in cls.__struct_fields__})  # type: ignore[attr-defined]


class Requester:
    """A client with a producer, that takes what it is pushed."""

    def __init__(self, client: Client, code: int | None = 0) -> None:
        self.client, self.code = client, code
        self.pushed: list[tuple[PushReplyRequest, bytes]] = []
        client.pool = ConnectionPool(client.broker.clock, {PUSH: self._take})

    def _take(self, command: Command, _: Connection) -> Command | None:
        self.pushed.append((command.read(PushReplyRequest), command.body))
        return None if self.code is None else Command(self.code, remark="the client's own words")

    async def announce(self, client_id: str = "asker") -> None:
        await self.client.heartbeat(group="", producer="askers", client_id=client_id)


async def requester(stage: Stage, client: Client, code: int | None = 0) -> Requester:
    made = Requester(Client(client.broker, stage.clock), code)
    await made.announce()
    return made


@pytest.mark.parametrize("cls", [SendReplyRequest, SendReplyLongRequest])
async def test_a_reply_is_pushed_and_kept(stage: Stage, cls: type) -> None:
    client = await stage.start()
    asker = await requester(stage, client)
    answer = (await client.ask(reply(cls=cls, flag=7), b"42")).read(SendMessageResponse)
    ((push, body),) = asker.pushed
    assert (push.topic, push.flag, push.producer_group, body) == (
        REPLY_TOPIC, 7, "producers", b"42"
    )  # fmt: skip
    pushed = props.decode(push.properties or "")
    assert pushed.pop("PUSH_REPLY_TIME") == str(stage.clock.now_ms())
    given = {
        "CORRELATION_ID": "c-1", "MSG_TYPE": "reply", "TTL": "3000", "REPLY_TO_CLIENT": "asker",
        "MSG_REGION": "DefaultRegion", "TRACE_ON": "true",
    }  # fmt: skip
    assert pushed == given
    assert push.store_host == client.broker.address
    assert push.born_host.startswith("127.0.0.1:")
    assert (answer.queue_id, answer.queue_offset, answer.region) == (0, 0, "DefaultRegion")
    (kept,) = await client.everything(topic=REPLY_TOPIC)
    assert (kept.body, kept.properties, kept.offset_msg_id) == (b"42", given, answer.msg_id)


async def test_replies_need_not_be_kept(stage: Stage) -> None:
    client = await stage.start(store_reply_message_enable=False)
    asker = await requester(stage, client)
    answer = (await client.ask(reply(), b"42")).read(SendMessageResponse)
    assert answer.msg_id == "0"
    assert len(asker.pushed) == 1
    assert await client.everything(topic=REPLY_TOPIC) == []


async def test_a_reply_that_is_too_large_is_handed_over_but_not_kept(stage: Stage) -> None:
    client = await stage.start(max_message_size=1024)
    asker = await requester(stage, client)
    answer = (await client.ask(reply(), bytes(1025))).read(SendMessageResponse)
    assert answer.msg_id == "0"
    assert len(asker.pushed) == 1
    assert await client.everything(topic=REPLY_TOPIC) == []


async def test_nobody_there(stage: Stage) -> None:
    client = await stage.start()
    answer = await client.call(reply("gone"), b"42")
    assert answer.code == 1
    assert answer.remark == "push reply message fail, channel of <gone> not found."
    assert answer.read(SendMessageResponse).queue_offset == 0
    assert len(await client.everything(topic=REPLY_TOPIC)) == 1
    refusal = await client.refusal(reply(None), b"42")
    assert refusal == (1, "reply message properties[REPLY_TO_CLIENT] is null")


async def test_a_requester_that_says_goodbye_or_hangs_up_is_not_found(stage: Stage) -> None:
    client = await stage.start()
    asker = await requester(stage, client)
    await asker.client.heartbeat(group="", producer="others", client_id="asker")
    await asker.client.close()
    assert (await client.refusal(reply(), b"42")).remark.endswith("<asker> not found.")
    again = await requester(stage, client)
    assert (await client.call(reply(), b"42")).code == 0
    assert len(again.pushed) == 1


async def test_a_requester_that_refuses(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    client = await stage.start()
    asker = await requester(stage, client, code=1)
    with caplog.at_level(logging.INFO, "pocketmq.broker"):
        refusal = await client.refusal(reply(), b"42")
    assert refusal == (1, "push reply message to askerfail.")
    assert "the client's own words" in caplog.text
    assert len(asker.pushed) == 1


async def test_a_requester_that_is_silent(stage: Stage) -> None:
    client = await stage.start()
    asker = await requester(stage, client, code=None)
    call = asyncio.ensure_future(client.refusal(reply(), b"42"))
    await until(lambda: asker.pushed)
    await stage.clock.advance(PUSH_TIMEOUT_MS / 1000 - 1)
    assert not call.done()
    await stage.clock.advance(1)
    assert await call == (1, "push reply message to askerfail.")


@pytest.mark.parametrize(
    ("fields", "code"), [({"topic": "T unknown"}, 29), ({"topic": "SELF_TEST_TOPIC"}, 16),
                         ({"queue_id": 9}, 29)]
)  # fmt: skip
async def test_what_no_send_may_no_reply_may(
    stage: Stage, fields: dict[str, Any], code: int
) -> None:
    client = await stage.start()
    asker = await requester(stage, client)
    assert (await client.refusal(reply(**fields), b"42")).code == code
    assert asker.pushed == []


async def test_an_unknown_topic_when_none_are_made(stage: Stage) -> None:
    client = await stage.start(auto_create_topic_enable=False)
    assert (await client.refusal(reply(topic="T"), b"42")).code == 17


@pytest.mark.parametrize("name", ["RMQ_SYS_TRACE_TOPIC", "Traces"])
async def test_the_topic_of_traces_is_there_if_it_is_wanted(stage: Stage, name: str) -> None:
    client = await stage.start(trace_topic_enable=True, msg_trace_topic_name=name)
    topic = client.broker.topics.get(name)
    assert topic is not None
    assert (topic.read_queue_nums, topic.write_queue_nums) == (1, 1)


async def test_without_it_the_topic_is_made_like_any(stage: Stage) -> None:
    client = await stage.start()
    assert "RMQ_SYS_TRACE_TOPIC" not in client.broker.topics
    await client.send(topic="RMQ_SYS_TRACE_TOPIC")
    assert "RMQ_SYS_TRACE_TOPIC" in client.broker.topics
