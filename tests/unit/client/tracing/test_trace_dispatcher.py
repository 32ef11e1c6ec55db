"""Traces on their way: when they are written, what is dropped, what a close does."""

from __future__ import annotations

import asyncio
import logging
from zlib import decompress

import pytest
from support.peers.client import Answer, Cluster, code, done, silent, stored
from support.peers.transport import until

from pocketmq.client.tracing.trace_dispatcher import (
    BODY_SIZE_MAX,
    CLOSE_TIMEOUT_S,
    FLUSH_AT,
    FLUSH_INTERVAL_S,
    KEYS_SIZE_MAX,
    PRODUCE,
    RECORDS_MAX,
    TraceDispatcher,
)
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.trace import (
    PubTrace,
    TraceRecord,
    decode_trace,
    encode_trace,
    index_keys,
)
from pocketmq.protocol.requests.sending import SendMessageV2Request

SEND = RequestCode.SEND_MESSAGE_V2
TOPIC = "RMQ_SYS_TRACE_TOPIC"


def record(number: int, *, keys: str = "k", tags: str = "A") -> PubTrace:
    return PubTrace(
        time_ms=1, region="R", group="pg", topic="T", msg_id=f"ID{number}", keys=keys, tags=tags,
        store_host="h:1",
    )  # fmt: skip


async def dispatcher(cluster: Cluster, answer: Answer = stored) -> TraceDispatcher:
    await cluster.add_namesrv()
    (await cluster.add_broker("a")).answers[SEND] = answer
    cluster.topic(TOPIC, "a")
    client = cluster.client()
    await client.start()
    return TraceDispatcher(client, "pg", PRODUCE, TOPIC)


def written(cluster: Cluster) -> list[list[TraceRecord]]:
    """The records of each message that the broker has."""
    requests = [r for r in cluster.brokers["a"].requests if r.code == SEND]
    bodies = [
        decompress(r.body) if r.read(SendMessageV2Request).sys_flag else r.body for r in requests
    ]
    return [decode_trace(body.decode()) for body in bodies]


async def test_few_are_written_after_a_while(cluster: Cluster) -> None:
    trace = await dispatcher(cluster)
    trace.append([record(1), record(2)])
    await cluster.clock.advance(FLUSH_INTERVAL_S - 0.1)
    assert written(cluster) == []
    await cluster.clock.advance(0.2)
    await until(lambda: written(cluster))
    assert written(cluster) == [[record(1), record(2)]]
    sent = cluster.brokers["a"].last(SEND).read(SendMessageV2Request)
    assert (sent.topic, sent.producer_group) == (TOPIC, "_INNER_TRACE_PRODUCER-pg-PRODUCE")
    assert props.value_of(sent.properties or "", "KEYS") == "ID1 k ID2"
    await done(trace.close())


async def test_many_are_written_at_once(cluster: Cluster) -> None:
    trace = await dispatcher(cluster)
    for number in range(FLUSH_AT):
        trace.append([record(number)])
    await until(lambda: written(cluster))
    assert len(written(cluster)[0]) == FLUSH_AT
    await done(trace.close())


async def test_messages_of_the_trace_are_bounded(cluster: Cluster) -> None:
    trace = await dispatcher(cluster)
    large = [record(n, tags="A" * 40_000) for n in range(10)]
    keyed = [record(n, keys=f"{n:05}" * 1_000) for n in range(10)]
    trace.append(large + keyed)
    await done(trace.close())
    parts = written(cluster)
    assert [r for part in parts for r in part] == large + keyed
    assert max(sum(len(encode_trace(r)) for r in part) for part in parts) <= BODY_SIZE_MAX
    assert max(sum(len(k) for r in part for k in index_keys(r)) for part in parts) <= KEYS_SIZE_MAX
    assert len(parts) < 10
    assert trace.dropped == 0


async def test_what_exceeds_the_limit_is_dropped_counted_and_logged(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    trace = await dispatcher(cluster)
    with caplog.at_level(logging.WARNING, "pocketmq.client"):
        trace.append(record(n) for n in range(RECORDS_MAX + 7))
    assert trace.dropped == 7
    assert len(caplog.records) == 1
    await done(trace.close())
    assert sum(map(len, written(cluster))) == RECORDS_MAX


async def test_a_broker_that_refuses_costs_only_the_traces(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    trace = await dispatcher(cluster, code(ResponseCode.MESSAGE_ILLEGAL, "no traces here"))
    with caplog.at_level(logging.WARNING, "pocketmq.client"):
        trace.append([record(1), record(2)])
        await done(trace.close())
    assert trace.dropped == 2
    assert "no traces here" in caplog.text


async def test_a_close_does_not_wait_forever(cluster: Cluster) -> None:
    trace = await dispatcher(cluster, silent)
    trace.append(record(n) for n in range(FLUSH_AT))
    await until(lambda: cluster.brokers["a"].count(SEND))
    trace.append([record(99)])
    close = asyncio.ensure_future(trace.close())
    await cluster.clock.advance(CLOSE_TIMEOUT_S - 0.1)
    assert not close.done()
    await cluster.clock.advance(0.2)
    await done(close)
    assert trace.dropped == FLUSH_AT + 1
