"""What is told of messages, and of which ones nothing is."""

from __future__ import annotations

from typing import Any

import pytest
from support.peers.client import Cluster
from support.peers.messages import received

from pocketmq.client import (
    CommunicationMode,
    ConsumeMessageContext,
    ConsumeReturnType,
    Message,
    MessageQueue,
    MessageType,
    SendMessageContext,
    SendResult,
    SendStatus,
)
from pocketmq.client.hooks import run
from pocketmq.client.tracing.trace_dispatcher import TraceDispatcher
from pocketmq.client.tracing.tracing import ConsumerTrace, ProducerTrace, trace_end
from pocketmq.protocol import flags
from pocketmq.protocol.messages.message import ReceivedMessage
from pocketmq.protocol.messages.trace import (
    EndTransactionTrace,
    PubTrace,
    SubAfterTrace,
    SubBeforeTrace,
    TraceRecord,
    TransactionState,
)
from pocketmq.protocol.requests.transactions import EndTransactionRequest

QUEUE = MessageQueue("T", "a", 1)


class Kept(TraceDispatcher):
    """Takes records and keeps them."""

    def append(self, records: Any) -> None:
        self.records: list[TraceRecord] = [*getattr(self, "records", []), *records]


async def kept(cluster: Cluster) -> Kept:
    await cluster.add_namesrv()
    client = cluster.client()
    await client.start()
    dispatcher = Kept(client, "g", "PRODUCE", "RMQ_SYS_TRACE_TOPIC")
    dispatcher.records = []
    return dispatcher


def result(**changes: Any) -> SendResult:
    given: dict[str, Any] = {
        "status": SendStatus.SEND_OK, "msg_id": "ID", "offset_msg_id": "AC", "queue": QUEUE,
        "queue_offset": 7, "region": "R",
    }  # fmt: skip
    return SendResult(**(given | changes))


async def sent(
    cluster: Cluster, *messages: Message, queue: MessageQueue = QUEUE, **changes: Any
) -> list[TraceRecord]:
    """What is told of a send that took 3 ms."""
    dispatcher = await kept(cluster)
    trace = ProducerTrace(dispatcher, cluster.clock)
    context = SendMessageContext(
        "pg", messages, queue, "h:1", CommunicationMode.SYNC, MessageType.DELAY
    )
    run(trace.hooks.before, context)
    await cluster.clock.advance(0.003)
    if changes.pop("failed", False):
        context.error = RuntimeError("no")
    else:
        context.result = result(**changes)
    run(trace.hooks.after, context)
    await dispatcher.close()
    return dispatcher.records


def with_id(number: int) -> Message:
    return Message("T", b"x" * number, tags="A", keys=["k"], properties={"UNIQ_KEY": f"ID{number}"})


async def test_a_send(cluster: Cluster) -> None:
    now_ms = cluster.clock.now_ms()
    assert await sent(cluster, with_id(5)) == [
        PubTrace(
            time_ms=now_ms, region="R", group="pg", topic="T", msg_id="ID5", tags="A", keys="k",
            store_host="h:1", body_length=5, cost_ms=3, message_type=MessageType.DELAY,
            offset_msg_id="AC",
        )
    ]  # fmt: skip


async def test_a_batch_is_told_of_message_by_message(cluster: Cluster) -> None:
    records = await sent(cluster, with_id(1), with_id(2), offset_msg_id="AC1,AC2")
    assert [(r.msg_id, r.offset_msg_id) for r in records if isinstance(r, PubTrace)] == [
        ("ID1", "AC1"), ("ID2", "AC2")
    ]  # fmt: skip


async def test_a_status_that_is_not_ok(cluster: Cluster) -> None:
    (record,) = await sent(cluster, with_id(1), status=SendStatus.FLUSH_DISK_TIMEOUT)
    assert isinstance(record, PubTrace)
    assert not record.is_success


@pytest.mark.parametrize(
    "changes",
    [
        {"failed": True},
        {"trace_on": False},
        {"queue": MessageQueue("RMQ_SYS_TRACE_TOPIC", "a", 0)},
    ],
)
async def test_sends_of_which_nothing_is_told(cluster: Cluster, changes: dict[str, Any]) -> None:
    assert await sent(cluster, with_id(1), **changes) == []


def pulled(offset: int, **properties: str) -> ReceivedMessage:
    message = received(offset)
    message.properties = {"UNIQ_KEY": f"ID{offset}", "MSG_REGION": "R", **properties}
    message.reconsume_times = 2
    return message


async def test_a_batch_that_a_listener_handles(cluster: Cluster) -> None:
    dispatcher = await kept(cluster)
    trace = ConsumerTrace(dispatcher, cluster.clock)
    off = pulled(3, TRACE_ON="false")
    of_the_trace = pulled(4)
    of_the_trace.topic = "RMQ_SYS_TRACE_TOPIC"
    of_a_batch = pulled(2, TRACE_ON="true")
    del of_a_batch.properties["MSG_REGION"]
    batch = [pulled(1, KEYS="k1 k2"), of_a_batch, off, of_the_trace]
    context = ConsumeMessageContext("cg", batch, QUEUE)
    now_ms = cluster.clock.now_ms()
    run(trace.hooks.before, context)
    request_ids = {r.request_id for r in dispatcher.records if isinstance(r, SubBeforeTrace)}
    (request_id,) = request_ids
    assert dispatcher.records == [
        SubBeforeTrace(
            time_ms=now_ms, region="R", group="cg", request_id=request_id, msg_id="ID1",
            retry_times=2, keys="k1 k2",
        ),
        SubBeforeTrace(
            time_ms=now_ms, region="DefaultRegion", group="cg", request_id=request_id,
            msg_id="ID2", retry_times=2,
        ),
    ]  # fmt: skip
    await cluster.clock.advance(0.02)
    context.return_type = ConsumeReturnType.FAILED
    run(trace.hooks.after, context)
    assert dispatcher.records[2:] == [
        SubAfterTrace(
            request_id=request_id, msg_id=msg_id, cost_ms=5, is_success=False, keys=keys,
            return_type=ConsumeReturnType.FAILED, time_ms=now_ms + 20, group="cg",
        )
        for msg_id, keys in (("ID1", "k1 k2"), ("ID2", None))
    ]  # fmt: skip
    await dispatcher.close()


async def test_a_batch_of_which_nothing_is_told(cluster: Cluster) -> None:
    dispatcher = await kept(cluster)
    trace = ConsumerTrace(dispatcher, cluster.clock)
    context = ConsumeMessageContext("cg", [pulled(1, TRACE_ON="false")], QUEUE)
    run(trace.hooks.before, context)
    run(trace.hooks.after, context)
    assert dispatcher.records == []
    await dispatcher.close()


@pytest.mark.parametrize(
    ("bits", "state"),
    [
        (flags.TRANSACTION_COMMIT, TransactionState.COMMIT_MESSAGE),
        (flags.TRANSACTION_ROLLBACK, TransactionState.ROLLBACK_MESSAGE),
        (0, TransactionState.UNKNOW),
    ],
)
async def test_the_end_of_a_transaction(
    cluster: Cluster, bits: int, state: TransactionState
) -> None:
    dispatcher = await kept(cluster)
    request = EndTransactionRequest(
        producer_group="pg", tran_state_table_offset=1, commit_log_offset=2,
        commit_or_rollback=bits, from_transaction_check=True, msg_id="ID5", transaction_id="TX",
    )  # fmt: skip
    trace_end(dispatcher, "pg", with_id(5), request, bits, "h:1")
    assert dispatcher.records == [
        EndTransactionTrace(
            time_ms=cluster.clock.now_ms(), region="DefaultRegion", group="pg", topic="T",
            msg_id="ID5", tags="A", keys="k", store_host="h:1", transaction_id="TX", state=state,
            is_from_check=True,
        )
    ]  # fmt: skip
    await dispatcher.close()
