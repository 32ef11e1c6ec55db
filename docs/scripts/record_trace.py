"""Records the trace that `trace_picture` draws: `make trace`; needs Java 17 and Maven.

A Java producer with OpenTelemetry's agent sends a message to a broker. A Python consumer fails to
handle it, gets it again, and fails again. The broker puts it to the dead letters, where another
consumer finds it. The spans that both languages export are written to ``trace.json`` beside this
file.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from support.interop.clusters import configured_cluster
from support.interop.java_agent import SETTINGS, load_agent
from support.interop.java_probe import JavaProbe, build_probe
from support.interop.probes import DEADLINE_S

from pocketmq.client import PushConsumer, ReceivedMessage
from pocketmq.client.blocking import Admin
from pocketmq.client.opentelemetry import PocketMQInstrumentor

RECORDED = Path(__file__).with_name("trace.json")
TOPIC, GROUP, UNDERTAKERS = "Orders", "billing", "undertakers"
SENT = 2
"""Messages that the Java probe sends in the form `sync`."""

WORK_S = 0.6
"""How long a listener is at work, so that the picture shows it."""

Row = dict[str, Any]


class CardDeclined(Exception):
    """The reason why the listener fails."""


class Collector(ThreadingHTTPServer):
    """Takes OTLP over HTTP, as OpenTelemetry's collector does."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Request)
        self.requests: list[ExportTraceServiceRequest] = []

    def rows(self) -> list[Row]:
        """The spans that came."""
        return [
            {
                "service": "Java producer",
                "name": span.name,
                "kind": Span.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_"),
                "trace": span.trace_id.hex(),
                "span": span.span_id.hex(),
                "parent": span.parent_span_id.hex(),
                "begin_ns": span.start_time_unix_nano,
                "end_ns": span.end_time_unix_nano,
                "error": "",
                "retries": 0,
            }
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


class _Request(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests.append(ExportTraceServiceRequest.FromString(body))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


def send_from_java(probe: JavaProbe, agent: Path, namesrv: str, collector: Collector) -> None:
    """Has Apache's client send, with the agent around it."""
    settings = {
        **SETTINGS,
        "OTEL_TRACES_EXPORTER": "otlp",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector.server_port}",
        "OTEL_BSP_SCHEDULE_DELAY": "10",  # the probe does not wait for it
        "JAVA_TOOL_OPTIONS": f"-javaagent:{agent}",
    }
    words = probe.command("send", deadline_s=DEADLINE_S, namesrv=namesrv, topic=TOPIC, forms="sync")
    subprocess.run(
        words, env={**os.environ, **settings}, cwd=probe.home, check=True, capture_output=True
    )


async def handle(namesrv: str, send: Callable[[], None]) -> None:
    """Fails with what Java sends until the broker gives it up, then takes the dead letters."""
    loop, given_up, buried = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
    counts: Counter[str] = Counter()

    def count(what: str, event: asyncio.Event) -> None:
        counts[what] += 1
        if counts[what] == SENT:
            loop.call_soon_threadsafe(event.set)

    def charge(messages: list[ReceivedMessage]) -> None:
        time.sleep(WORK_S)
        if messages[0].reconsume_times:
            count("given up", given_up)
        raise CardDeclined(messages[0].msg_id)

    def bury(messages: list[ReceivedMessage]) -> None:
        time.sleep(WORK_S)
        count("buried", buried)

    first: dict[str, Any] = {"consume_from_where": "CONSUME_FROM_FIRST_OFFSET"}
    async with PushConsumer(
        GROUP, namesrv, listener=charge, max_reconsume_times=1, **first
    ) as consumer:
        consumer.subscribe(TOPIC)
        await asyncio.to_thread(send)
        await given_up.wait()
        await asyncio.sleep(WORK_S)
    async with PushConsumer(UNDERTAKERS, namesrv, listener=bury, **first) as consumer:
        consumer.subscribe(f"%DLQ%{GROUP}")
        await buried.wait()


def rows_of(spans: Sequence[ReadableSpan]) -> list[Row]:
    """The spans of this project's client."""
    rows = []
    for span in spans:
        context, attributes = span.get_span_context(), span.attributes or {}
        assert context is not None
        group = str(attributes["messaging.consumer.group.name"])
        rows.append(
            {
                "service": f"Python, group {group}",
                "name": span.name,
                "kind": span.kind.name,
                "trace": f"{context.trace_id:032x}",
                "span": f"{context.span_id:016x}",
                "parent": f"{span.parent.span_id:016x}" if span.parent else "",
                "begin_ns": span.start_time,
                "end_ns": span.end_time,
                "error": str(attributes.get("error.type", ""))
                if span.status.status_code is StatusCode.ERROR
                else "",
                "retries": attributes.get("pocketmq.message.reconsume_times", 0),
            }
        )
    return rows


def one_trace(rows: Sequence[Row]) -> list[Row]:
    """The spans of the first trace that begins in Java, by time from its beginning."""
    trace = min(rows, key=lambda row: (row["kind"] != "PRODUCER", row["begin_ns"]))["trace"]
    found = sorted((r for r in rows if r["trace"] == trace), key=lambda r: int(r["begin_ns"]))
    begin = found[0]["begin_ns"]
    return [
        {
            **{name: row[name] for name in ("service", "name", "kind", "span", "parent")},
            "begin_ms": round((row["begin_ns"] - begin) / 1e6, 1),
            "end_ms": round((row["end_ns"] - begin) / 1e6, 1),
            "error": row["error"].rpartition(".")[2],
            "retries": row["retries"],
        }
        for row in found
    ]


def main() -> None:
    """Records the trace anew."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    PocketMQInstrumentor().instrument(tracer_provider=provider)
    collector = Collector()
    threading.Thread(target=collector.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory)
        probe, agent = build_probe(home), load_agent()
        with configured_cluster(home, {"defaultTopicQueueNums": 1}) as cluster:
            namesrv = cluster.namesrv
            with Admin(namesrv) as admin:
                admin.create_topic(TOPIC, 1)
            asyncio.run(handle(namesrv, lambda: send_from_java(probe, agent, namesrv, collector)))
    rows = one_trace(collector.rows() + rows_of(exporter.get_finished_spans()))
    RECORDED.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
