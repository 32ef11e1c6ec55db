"""Spans of producers and consumers, on a real cluster, as OpenTelemetry's SDK exports them."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.instrumentation.utils import suppress_instrumentation
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Span, SpanKind, StatusCode

from pocketmq.client import (
    ConsumeResult,
    LocalTransactionState,
    Message,
    ReceivedMessage,
    SendHooks,
    SimpleConsumer,
)
from pocketmq.client.opentelemetry import PocketMQInstrumentor, context_of
from pocketmq.protocol.errors import PocketMQError
from pocketmq.testing import LocalCluster


class Spans:
    """What was exported, by name."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = self.provider.get_tracer("application")

    def of(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.exporter.get_finished_spans() if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        (span,) = self.of(name)
        return span


@pytest.fixture
def spans() -> Iterator[Spans]:
    found = Spans()
    PocketMQInstrumentor().instrument(tracer_provider=found.provider)
    yield found
    PocketMQInstrumentor().uninstrument()
    found.provider.shutdown()


@pytest.fixture(autouse=True)
def quiet_listeners(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, "pocketmq")


def span_id(span: ReadableSpan | Span) -> int:
    context = span.get_span_context()
    assert context is not None
    return context.span_id


def trace_id(span: ReadableSpan | Span) -> int:
    context = span.get_span_context()
    assert context is not None
    return context.trace_id


def ids(spans: Sequence[ReadableSpan]) -> set[int]:
    return {span_id(span) for span in spans}


def parent_id(span: ReadableSpan) -> int:
    assert span.parent is not None
    return span.parent.span_id


def linked(span: ReadableSpan) -> set[int]:
    return {link.context.span_id for link in span.links}


def attributes(span: ReadableSpan) -> dict[str, object]:
    return dict(span.attributes or {})


@pytest.mark.parametrize(
    "settings", [{}, {"mode": "pop"}, {"orderly": True}], ids=["pull", "pop", "orderly"]
)
async def test_producer_and_listener_are_one_trace(spans: Spans, settings: dict[str, Any]) -> None:
    async def listener(messages: list[ReceivedMessage]) -> None:
        with spans.tracer.start_as_current_span("price"):
            pass

    async with (
        LocalCluster(topics={"Orders": 1}) as cluster,
        cluster.producer() as producer,
        cluster.push_consumer("billing", listener=listener, **settings) as consumer,
    ):
        consumer.subscribe("Orders")
        with spans.tracer.start_as_current_span("checkout") as checkout:
            result = await producer.send(Message("Orders", b"x", tags="new", keys=("a", "b")))
        await cluster.drain("billing")
    send, process, price = spans.one("send Orders"), spans.one("process Orders"), spans.one("price")
    assert {trace_id(span) for span in (send, process, price)} == {trace_id(checkout)}
    assert parent_id(send) == span_id(checkout)
    assert parent_id(process) == span_id(send)
    assert parent_id(price) == span_id(process)
    assert (send.kind, process.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    known = {
        "messaging.system": "rocketmq",
        "messaging.destination.name": "Orders",
        "messaging.destination.partition.id": "0",
        "messaging.message.id": result.msg_id,
        "messaging.rocketmq.namespace": "",
        "messaging.rocketmq.message.tag": "new",
        "messaging.rocketmq.message.keys": ("a", "b"),
    }
    assert attributes(send) == known | {
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.rocketmq.message.type": "normal",
        "server.address": "127.0.0.1",
        "server.port": attributes(send)["server.port"],
    }
    assert attributes(process) == known | {
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.consumer.group.name": "billing",
    }
    assert process.status.status_code is StatusCode.UNSET


def test_blocking_clients_and_plain_listeners(spans: Spans) -> None:
    def listener(messages: list[ReceivedMessage]) -> None:
        with spans.tracer.start_as_current_span("price"):
            pass

    with LocalCluster(topics={"Orders": 1}) as cluster:
        producer = cluster.producer()
        consumer = cluster.push_consumer("billing", listener=listener)
        consumer.subscribe("Orders")
        with producer, spans.tracer.start_as_current_span("checkout") as checkout, consumer:
            producer.send(Message("Orders", b"x"))
            cluster.drain("billing")
            # The consumer was started within the span, which is not why it handles messages.
            with suppress_instrumentation():
                producer.send(Message("Orders", b"y"))
            cluster.drain("billing")
    send = spans.one("send Orders")
    assert parent_id(send) == span_id(checkout)
    first, second = spans.of("process Orders")
    assert parent_id(first) == span_id(send)
    assert second.parent is None
    assert {parent_id(span) for span in spans.of("price")} == ids([first, second])


async def test_each_message_of_a_batch_has_a_context_of_its_own(spans: Spans) -> None:
    handled: list[list[ReceivedMessage]] = []

    async def one_by_one(messages: list[ReceivedMessage]) -> None:
        handled.append(messages)

    async with LocalCluster(topics={"Orders": 1}) as cluster:
        async with cluster.producer() as producer:
            with spans.tracer.start_as_current_span("checkout") as checkout:
                await producer.send_batch([Message("Orders", b"%d" % i) for i in range(3)])
                await producer.send_batch([Message("Orders", b"alone")])
        async with cluster.push_consumer("billing", listener=one_by_one) as consumer:
            consumer.subscribe("Orders")
            await cluster.drain("billing")
        async with cluster.push_consumer(
            "archive", listener=one_by_one, consume_message_batch_max_size=4
        ) as consumer:
            consumer.subscribe("Orders")
            await cluster.drain("archive")
    created = spans.of("create Orders")
    assert {parent_id(span) for span in created} == {span_id(checkout)}
    first, second = spans.of("send Orders")
    assert (linked(first), linked(second)) == (ids(created[:3]), ids(created[3:]))
    assert (attributes(first)["messaging.batch.message_count"], first.kind) == (3, SpanKind.CLIENT)
    assert {span.kind for span in created} == {SpanKind.PRODUCER}
    processed = spans.of("process Orders")
    by_group: dict[object, list[ReadableSpan]] = {}
    for span in processed:
        group = attributes(span)["messaging.consumer.group.name"]
        by_group.setdefault(group, []).append(span)
    assert {parent_id(span) for span in by_group["billing"]} == ids(created)
    assert len(by_group["billing"]) == 4
    # One span for several messages begins a trace, and names their origins.
    seen: set[int] = set()
    for span in by_group["archive"]:
        if span.parent is None:
            assert attributes(span)["messaging.batch.message_count"] == len(span.links)
            seen |= linked(span)
        else:
            seen.add(span.parent.span_id)
    assert seen == ids(created)
    assert any(len(span.links) > 1 for span in by_group["archive"])


async def test_retries_and_dead_letters_stay_in_the_trace(spans: Spans) -> None:
    async def failing(messages: list[ReceivedMessage]) -> ConsumeResult:
        if messages[0].reconsume_times == 0:
            raise ValueError("no price")
        return ConsumeResult.RETRY

    async def undertaker(messages: list[ReceivedMessage]) -> None:
        pass

    async with LocalCluster(topics={"Orders": 1}) as cluster:
        async with cluster.producer() as producer:
            await producer.send(Message("Orders", b"x"))
        async with cluster.push_consumer(
            "billing", listener=failing, max_reconsume_times=1
        ) as consumer:
            consumer.subscribe("Orders")
            await cluster.drain("billing")
            await cluster.clock.advance(minutes=1)
            await cluster.drain("billing")
            await cluster.expect("%DLQ%billing", b"x")
        async with cluster.push_consumer("undertakers", listener=undertaker) as consumer:
            consumer.subscribe("%DLQ%billing")
            await cluster.drain("undertakers")
    send = spans.one("send Orders")
    first, second = spans.of("process Orders")
    dead = spans.one("process %DLQ%billing")
    assert {parent_id(span) for span in (first, second, dead)} == ids([send])
    assert [attributes(s).get("error.type") for s in (first, second, dead)] == [
        "ValueError",
        "failed",
        None,
    ]
    assert first.status.status_code is second.status.status_code is StatusCode.ERROR
    assert first.events[0].name == "exception"
    assert attributes(second)["pocketmq.message.reconsume_times"] == 1


async def test_the_message_of_a_transaction_stays_in_the_trace(spans: Spans) -> None:
    class Orders:
        """A transaction listener that has a span of its own, in a thread."""

        def execute_local_transaction(self, message: Message, arg: Any) -> LocalTransactionState:
            with spans.tracer.start_as_current_span("pay"):
                return LocalTransactionState.COMMIT

        def check_local_transaction(self, message: ReceivedMessage) -> LocalTransactionState:
            return LocalTransactionState.UNKNOWN

    async def listener(messages: list[ReceivedMessage]) -> None:
        pass

    async with (
        LocalCluster(topics={"Orders": 1}) as cluster,
        cluster.transaction_producer("payments", listener=Orders()) as producer,
        cluster.push_consumer("billing", listener=listener) as consumer,
    ):
        consumer.subscribe("Orders")
        with spans.tracer.start_as_current_span("checkout") as checkout:
            await producer.send_in_transaction(Message("Orders", b"x"))
        await cluster.expect("Orders", b"x")
        await cluster.drain("billing")
    send = spans.one("send Orders")
    assert attributes(send)["messaging.rocketmq.message.type"] == "transaction"
    assert parent_id(send) == parent_id(spans.one("pay")) == span_id(checkout)
    assert parent_id(spans.one("process Orders")) == span_id(send)


async def test_consumers_that_pull_link_to_what_they_got(spans: Spans) -> None:
    async with LocalCluster(topics={"Orders": 1}) as cluster:
        async with cluster.producer() as producer:
            for body in (b"1", b"2"):
                await producer.send(Message("Orders", body))
        sent = ids(spans.of("send Orders"))
        async with cluster.pull_consumer("pulling") as pulling:
            (queue,) = await pulling.queues("Orders")
            with spans.tracer.start_as_current_span("report") as report:
                got = (await pulling.pull(queue, 0)).messages
        async with cluster.lite_pull_consumer("polling") as polling:
            polling.subscribe("Orders")
            polled: list[ReceivedMessage] = []
            while len(polled) < 2:
                polled += await polling.poll()
        simple = SimpleConsumer("popping", **cluster.client_settings)
        simple.subscribe("Orders")
        async with simple:
            popped = await simple.receive(max_messages=2)
            await simple.ack(*popped)
    received = spans.of("receive Orders")
    groups = [attributes(span)["messaging.consumer.group.name"] for span in received]
    assert set(groups) == {"pulling", "polling", "popping"}
    for group in set(groups):
        links = [linked(s) for s, of in zip(received, groups, strict=True) if of == group]
        assert set.union(*links) == sent
    assert parent_id(received[0]) == span_id(report)
    assert {span.kind for span in received} == {SpanKind.CLIENT}
    # An application goes on with the trace of one of them by a span of its own.
    origin = trace.get_current_span(context_of(got[0])).get_span_context()
    assert {origin.span_id} < sent
    assert origin.is_remote


async def test_a_failed_send_says_why(spans: Spans) -> None:
    def grow(context: object) -> None:
        message.properties["huge"] = "x" * 40_000

    message = Message("Orders", b"x")
    async with (
        LocalCluster(topics={"Orders": 1}) as cluster,
        cluster.producer(hooks=SendHooks(before=[grow])) as producer,
    ):
        with pytest.raises(PocketMQError):
            await producer.send(message)
    send = spans.one("send Orders")
    assert attributes(send)["error.type"] == "MessageSizeError"
    assert send.status.status_code is StatusCode.ERROR


async def test_a_forwarded_message_carries_no_earlier_trace(spans: Spans) -> None:
    async with LocalCluster(topics={"Orders": 1}) as cluster:
        async with cluster.producer() as producer:
            properties = {"traceparent": f"00-{1:032x}-{2:016x}-01", "tracestate": "other=1"}
            await producer.send(Message("Orders", b"x", properties=properties))
        (stored,) = await cluster.published("Orders")
    send = spans.one("send Orders")
    carried = stored.properties["traceparent"]
    assert carried.startswith(f"00-{trace_id(send):032x}-{span_id(send):016x}-")
    assert "tracestate" not in stored.properties
    assert trace_id(send) != 1


async def test_clients_made_without_it_write_nothing() -> None:
    async with LocalCluster(topics={"Orders": 1}) as cluster:
        async with cluster.producer() as producer:
            await producer.send(Message("Orders", b"x"))
        (stored,) = await cluster.published("Orders")
    assert "traceparent" not in stored.properties


def test_the_tools_of_opentelemetry_find_the_instrumentor() -> None:
    (found,) = entry_points(group="opentelemetry_instrumentor", name="pocketmq")
    assert found.load() is PocketMQInstrumentor


@pytest.mark.process
def test_the_command_of_opentelemetry_instruments_an_application() -> None:
    script = "from pocketmq.client.hooks import COMMON; print(len(COMMON.sending.before))"
    program = [str(Path(sys.executable).with_name("opentelemetry-instrument"))]
    done = subprocess.run(
        [*program, sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "1"


@pytest.mark.process
def test_who_does_not_ask_for_it_does_not_load_it() -> None:
    script = (
        "import sys; from pocketmq.client import *;"
        "from pocketmq.client import blocking; import pocketmq.client.blocking.clients;"
        "print([m for m in sys.modules if 'opentelemetry' in m])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
