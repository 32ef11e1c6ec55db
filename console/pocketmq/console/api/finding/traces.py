"""The traces of one message on one axis of time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pocketmq.client import Admin
from pocketmq.client.errors import UnknownTopicError
from pocketmq.console.api.callers import Callers, Clients
from pocketmq.console.api.finding.messages import message_named
from pocketmq.console.api.paths import PREFIX
from pocketmq.console.web.bodies import Count, RequestBody, ResponseBody
from pocketmq.console.web.operations import Call, Operation
from pocketmq.console.web.problems import ProblemError
from pocketmq.protocol.errors import ContentError
from pocketmq.protocol.messages.message import ReceivedMessage
from pocketmq.protocol.messages.trace import (
    EndTransactionTrace,
    PubTrace,
    RecallTrace,
    SubAfterTrace,
    SubBeforeTrace,
    TraceRecord,
    decode_trace,
)
from pocketmq.protocol.names.names import TRACE_TOPIC

SPANS_MAX = 500
"""Spans of one answer."""

TIME_MS_MAX = 253_402_300_799_000
"""The end of the year 9999: traces are text that anybody may have written."""

Kind = Literal["send", "store", "consume", "end of transaction", "recall"]


class TraceQuery(RequestBody):
    """Where traces are.

    Attributes:
        trace_topic: to which the clients write.
    """

    trace_topic: str = TRACE_TOPIC


class Span(ResponseBody):
    """Something that was done with a message.

    Attributes:
        kind: what.
        group: of the producer or the consumers; null for the broker.
        begin_ms, duration_ms: by the clock of whoever did it; no duration while it is not over.
        is_success: null while it is not over.
        outcome: in the words of the trace.
        retry_times: how often the message had come before.
        host: of the broker.
    """

    kind: Kind
    group: str | None
    begin_ms: int
    duration_ms: Count | None
    is_success: bool | None
    outcome: str
    retry_times: Count = 0
    host: str | None = None


class MessageTrace(ResponseBody):
    """The traces of a message.

    Attributes:
        msg_id: the id that the sender's client gave.
        begin_ms, end_ms: of all spans; null without any.
        spans: by the time at which they begin.
        further: how many more spans there are.
        unreadable: messages of the trace topic that could not be read.
        problem: why there can be no traces of clients; null if there can.
    """

    msg_id: str
    begin_ms: int | None
    end_ms: int | None
    spans: list[Span]
    further: Count
    unreadable: Count
    problem: str | None = None


class TraceCalls:
    """Shows the traces of messages.

    Args:
        callers: their clients.
    """

    def __init__(self, callers: Callers) -> None:
        self._callers = callers

    def operations(self) -> list[Operation]:
        """Returns the operations of this family."""
        return [
            Operation(
                "GET", f"{PREFIX}/topics/{{topic}}/messages/{{id}}/trace", "getTrace",
                "Who sent, stored and consumed a message, when and for how long, as far as clients "
                "write traces.",
                self._callers.serve(self.trace), MessageTrace, query=TraceQuery,
            ),
        ]  # fmt: skip

    async def trace(self, clients: Clients, call: Call) -> MessageTrace:
        """Finds the traces of a message."""
        query = call.query
        assert isinstance(query, TraceQuery)
        msg_id, spans = call.path["id"], []
        try:
            message = await message_named(clients, call.path["topic"], msg_id)
        except ProblemError:
            pass  # retention may have taken the message, and left its traces
        else:
            msg_id = message.msg_id
            spans.append(_stored(message))
        records, unreadable, problem = await _records(clients.admin, query.trace_topic, msg_id)
        spans = [span for span in spans + spans_of(records) if 0 <= span.begin_ms <= TIME_MS_MAX]
        spans.sort(key=lambda span: span.begin_ms)
        shown = spans[:SPANS_MAX]
        return MessageTrace(
            msg_id=msg_id,
            begin_ms=min((span.begin_ms for span in shown), default=None),
            end_ms=max((span.begin_ms + (span.duration_ms or 0) for span in shown), default=None),
            spans=shown,
            further=len(spans) - len(shown),
            unreadable=unreadable,
            problem=problem,
        )


async def _records(
    admin: Admin, topic: str, msg_id: str
) -> tuple[list[TraceRecord], int, str | None]:
    """The records of a message, how many could not be read, and why there can be none."""
    try:
        found = await admin.query_messages(topic, msg_id)
    except UnknownTopicError:
        problem = (
            f"there is no topic {topic}, to which clients would write traces: turn traces on, with "
            f"traceTopicEnable of the brokers and enable_trace of the clients"
        )
        return [], 0, problem
    records, unreadable = [], 0
    for message in found:
        try:
            records += decode_trace(message.body.decode("utf-8", "replace"))
        except ContentError:
            unreadable += 1
    return [record for record in records if record.msg_id == msg_id], unreadable, None


def spans_of(records: Iterable[TraceRecord]) -> list[Span]:
    """Makes spans of trace records; a consumption has two, joined by the id of its request."""
    spans, begun, ended = [], {}, []
    for record in records:
        if isinstance(record, SubBeforeTrace):
            begun[record.request_id] = record
        elif isinstance(record, SubAfterTrace):
            ended.append(record)
        else:
            spans.append(_of_producer(record))
    for after in ended:
        spans.append(_consumed(begun.pop(after.request_id, None), after))
    spans += [_consumed(before, None) for before in begun.values()]
    return spans


def _stored(message: ReceivedMessage) -> Span:
    return Span(
        kind="store",
        group=None,
        begin_ms=message.store_timestamp,
        duration_ms=0,
        is_success=True,
        outcome=f"{message.broker_name}:{message.queue_id}, offset {message.queue_offset}",
        host=message.store_host,
    )


def _of_producer(record: PubTrace | EndTransactionTrace | RecallTrace) -> Span:
    kind: Kind
    outcome, duration_ms, is_success, host = "", 0, True, None
    if isinstance(record, PubTrace):
        kind, duration_ms, is_success = "send", max(record.cost_ms, 0), record.is_success
        outcome, host = record.message_type.name, record.store_host or None
    elif isinstance(record, EndTransactionTrace):
        kind, outcome, host = "end of transaction", record.state.value, record.store_host or None
    else:
        kind, is_success = "recall", record.is_success
        outcome = "recalled" if record.is_success else "not recalled"
    return Span(
        kind=kind,
        group=record.group,
        begin_ms=record.time_ms,
        duration_ms=duration_ms,
        is_success=is_success,
        outcome=outcome,
        host=host,
    )


def _consumed(before: SubBeforeTrace | None, after: SubAfterTrace | None) -> Span:
    """Joins the records before and after a listener; either may be missing."""
    cost_ms = None if after is None else max(after.cost_ms, 0)
    begin_ms, group, retry_times = 0, None, 0
    if before is not None:
        begin_ms, group, retry_times = before.time_ms, before.group, max(before.retry_times, 0)
    elif after is not None:
        begin_ms, group = (after.time_ms or 0) - (cost_ms or 0), after.group
    return Span(
        kind="consume",
        group=group,
        begin_ms=begin_ms,
        duration_ms=cost_ms,
        is_success=None if after is None else after.is_success,
        outcome="not over" if after is None else after.return_type.name,
        retry_times=retry_times,
    )
