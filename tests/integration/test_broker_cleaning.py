"""What administrators have removed, and what brokers do not serve: 27, 306, 316, 329, 908."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import pytest_asyncio
from support.brokers.broker_parts import TOPIC, Client, Stage

from pocketmq.broker.handlers.unsupported import UNSUPPORTED
from pocketmq.namesrv import NameServer, NamesrvConfig
from pocketmq.namesrv.handlers.unsupported import UNSUPPORTED as NAMESRV_UNSUPPORTED
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.names.names import OP_HALF_TOPIC
from pocketmq.protocol.requests.brokers import (
    CleanExpiredQueuesRequest,
    CleanUnusedTopicsRequest,
    DeleteExpiredFilesRequest,
    ResetMasterFlushOffsetRequest,
)
from pocketmq.protocol.wire.command import Command
from pocketmq.protocol.wire.header import RequestHeader
from pocketmq.testing.clock import VirtualClock
from pocketmq.transport.unsupported import Refusal

IDLE: dict[str, Any] = {
    "clean_resource_interval": 3_600_000,
    "flush_interval_commit_log": 600_000,
    "flush_delay_offset_interval": 600_000,
    "file_reserved_time": 1,
}
"""The broker itself cleans only every hour."""


@pytest_asyncio.fixture
async def client(stage: Stage) -> Client:
    return await stage.started_with_topic(**IDLE)


@pytest.mark.parametrize("request_class", [CleanExpiredQueuesRequest, DeleteExpiredFilesRequest])
@pytest.mark.usefixtures("rare_rounds")
async def test_expired_messages_go_at_once(
    client: Client, clock: VirtualClock, request_class: type[RequestHeader]
) -> None:
    await client.ask(request_class())
    await clock.advance(10)
    await client.send(b"old")
    await clock.advance(3595)
    await client.send(b"new")
    queue_log = client.broker.store.find_log(TOPIC, 0)
    assert queue_log is not None
    await client.ask(request_class())
    assert queue_log.min_offset == 0, "nothing is expired yet"
    await clock.advance(3590)
    assert queue_log.min_offset == 0
    await clock.advance(3600)
    await client.broker.store.checkpoint()
    await client.ask(request_class())
    await client.broker.store.checkpoint()
    await client.ask(request_class())
    assert queue_log.min_offset == 2


async def test_only_topics_that_are_none_lose_their_messages(client: Client) -> None:
    await client.create_topic("Left", 1, 1)
    await client.send(b"left", topic="Left")
    await client.send(b"kept")
    store = client.broker.store
    store.queue_log(OP_HALF_TOPIC, 0)
    client.broker.topics.remove("Left")
    await client.ask(CleanUnusedTopicsRequest())
    assert store.queue_ids("Left") == []
    assert not (store.logs.root / "Left").exists()
    assert (await client.pull()).bodies == [b"kept"]
    assert store.queue_ids(OP_HALF_TOPIC) == [0]
    await client.ask(CleanUnusedTopicsRequest())


async def test_a_master_has_no_flush_offset_of_a_master(client: Client) -> None:
    await client.ask(ResetMasterFlushOffsetRequest(master_flush_offset=7))
    await client.ask(ResetMasterFlushOffsetRequest())


async def test_what_does_not_apply_is_refused_with_words_that_help(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    connection = await client.pool.get(client.broker.address)
    with caplog.at_level(logging.INFO, "pocketmq"):
        for code, reason in UNSUPPORTED.items():
            answer = await connection.call(Command(code), 1e6)
            assert answer.code == 3, code
            assert answer.remark == f" request type {code.value} not supported: {reason}"
    assert "not supported" not in caplog.text
    assert not UNSUPPORTED.keys() & {RequestCode.GET_BROKER_CONFIG, RequestCode.PULL_MESSAGE}
    assert (await client.pull()).code == 19


async def test_name_servers_are_no_controllers(client: Client, clock: VirtualClock) -> None:
    async with NameServer(NamesrvConfig(listen_port=0, bind_address="127.0.0.1"), clock) as server:
        connection = await client.pool.get(server.address)
        for code in NAMESRV_UNSUPPORTED:
            answer = await connection.call(Command(code), 1e6)
            assert answer.code == 3
            assert answer.remark
            assert "ask one with an arbiterPath" in answer.remark


async def test_no_code_is_both_served_and_not(client: Client) -> None:
    for code in UNSUPPORTED:
        assert isinstance(client.broker.handlers[code], Refusal), f"{code} is served"
