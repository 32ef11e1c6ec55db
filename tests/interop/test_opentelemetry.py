"""Traces from Apache's Java client, with OpenTelemetry's agent, to this project's, and back."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind
from support.interop.clusters import Cluster
from support.interop.java_agent import load_agent, run_with_agent
from support.interop.java_probe import JavaProbe
from support.interop.scenarios import NewName

from pocketmq.client import Message, Producer, PushConsumer, ReceivedMessage
from pocketmq.client.opentelemetry import PocketMQInstrumentor

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]


@pytest.fixture(scope="session")
def agent(probe: JavaProbe) -> Path:
    """The jar of OpenTelemetry's Java agent."""
    return load_agent()


@pytest.fixture
def exporter() -> Iterator[InMemorySpanExporter]:
    """The spans of this project's client."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    PocketMQInstrumentor().instrument(tracer_provider=provider)
    yield exporter
    PocketMQInstrumentor().uninstrument()
    provider.shutdown()


async def processed(
    namesrv: str, topic: str, group: str, count: int, exporter: InMemorySpanExporter
) -> list[ReadableSpan]:
    """The spans of a listener that handles so many messages, each in a thread."""
    handled: set[str] = set()
    loop, all_handled = asyncio.get_running_loop(), asyncio.Event()

    def listener(messages: list[ReceivedMessage]) -> None:
        handled.update(message.msg_id for message in messages)
        if len(handled) == count:
            loop.call_soon_threadsafe(all_handled.set)

    async with PushConsumer(
        group, namesrv, listener=listener, consume_from_where="CONSUME_FROM_FIRST_OFFSET"
    ) as consumer:
        consumer.subscribe(topic)
        await all_handled.wait()
    return [span for span in exporter.get_finished_spans() if span.name == f"process {topic}"]


def parents(spans: list[ReadableSpan]) -> set[tuple[int, int]]:
    return {(span.parent.trace_id, span.parent.span_id) for span in spans if span.parent}


def trace_ids(spans: list[ReadableSpan]) -> Counter[int]:
    contexts = [span.get_span_context() for span in spans]
    return Counter(context.trace_id for context in contexts if context is not None)


@pytest.mark.whole_interop
async def test_what_java_sends_is_handled_in_its_trace(
    probe: JavaProbe,
    agent: Path,
    either: Cluster,
    new_name: NewName,
    exporter: InMemorySpanExporter,
) -> None:
    topic, namesrv = new_name("traced"), either.namesrv
    sent = await asyncio.to_thread(
        run_with_agent, probe, agent, "send", namesrv=namesrv, topic=topic, forms="sync,batch"
    )
    origins = {(span.trace_id, span.span_id) for span in sent if span.kind == "PRODUCER"}
    kinds = Counter((span.name, span.kind) for span in sent)
    assert kinds == {
        (f"send {topic}", "PRODUCER"): 2,
        (f"create {topic}", "PRODUCER"): 3,  # each message of the batch
        (f"send {topic}", "CLIENT"): 1,
    }
    handled = await processed(namesrv, topic, f"{topic}-python", 5, exporter)
    assert parents(handled) == origins
    assert len(handled) == 5


@pytest.mark.whole_interop
async def test_a_trace_goes_through_java_and_comes_back(
    probe: JavaProbe,
    agent: Path,
    either: Cluster,
    new_name: NewName,
    exporter: InMemorySpanExporter,
) -> None:
    topic, to, namesrv = new_name("there"), new_name("back"), either.namesrv
    async with Producer("python", namesrv) as producer:
        await producer.send(Message(topic, b"one"))
        await producer.send_batch([Message(topic, b"two"), Message(topic, b"three")])
    spans = exporter.get_finished_spans()
    begun = [span for span in spans if span.kind is SpanKind.PRODUCER]
    java = await asyncio.to_thread(
        run_with_agent,
        probe, agent, "forward",
        namesrv=namesrv, topic=topic, to=to, group=f"{topic}-java", expect=3,
    )  # fmt: skip
    handled = await processed(namesrv, to, f"{topic}-python", 3, exporter)
    by_java = Counter(span.trace_id for span in java if span.name == f"process {topic}")
    assert len(begun) == 3
    assert trace_ids(begun) == by_java == trace_ids(handled)
    sent = {(s.trace_id, s.span_id) for s in java if s.name == f"send {to}"}
    assert parents(handled) == sent
