"""What a proxy exports to Prometheus; loaded only where metrics are exported."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TypeVar

from pocketmq.proxy.calls import Call
from pocketmq.proxy.rpc import messaging_pb2 as pb
from pocketmq.proxy.service import Bidirectional, MessagingService, Streaming, Unary
from pocketmq.runtime import VERSION
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.metrics.endpoint import Page, ScrapeRequest, only_page
from pocketmq.runtime.metrics.exposition import (
    Exposition,
    Family,
    Kind,
    LabelSets,
    label_text,
    with_label,
)
from pocketmq.runtime.metrics.instruments import Histograms
from pocketmq.transport.grpc.server import GrpcServer
from pocketmq.transport.metering.certificate import write_expiry

UP = Family("rocketmq_proxy_up", Kind.GAUGE, "1: the proxy is there")
LATENCY = Family(
    "pocketmq_proxy_rpc_latency_milliseconds", Kind.HISTOGRAM,
    "Time from the request of an rpc to its answer, by the code of the answer's status",
    (1, 3, 5, 7, 10, 100, 1000, 2000, 3000),
)  # fmt: skip
UNDER_WAY = Family("pocketmq_proxy_calls", Kind.GAUGE, "Calls under way, by rpc")
CLIENTS = Family("pocketmq_proxy_clients", Kind.GAUGE, "Clients that are known")
CONNECTIONS = Family("pocketmq_proxy_connections", Kind.GAUGE, "Open connections of clients")
REFUSED = Family(
    "pocketmq_proxy_refused_connections_total", Kind.COUNTER,
    "Connections closed at once: too many are open",
)  # fmt: skip
BUILD = Family("pocketmq_proxy_build_info", Kind.GAUGE, "1, with the version as label")

AnswerT = TypeVar("AnswerT")

FAILED = "failed"
"""Stands for the code of a call that ended without an answer."""


class ProxyMetrics:
    """Measures the rpcs of a service, and writes the proxy's metrics for each scrape.

    Args:
        cluster: its name, for labels.
        name: of the proxy; empty for that of the machine.
        service: whose rpcs are measured from now on: give them to the server after this.
        clock: measures, and gives turns to others.
    """

    def __init__(self, cluster: str, name: str, service: MessagingService, clock: Clock) -> None:
        self._service, self._clock = service, clock
        node = {"cluster": cluster, "node_id": name or socket.gethostname(), "node_type": "proxy"}
        of_meter = {**node, "proxy_mode": "cluster", "otel_scope_name": "broker-meter"}
        self._node, self._meter = label_text(node), label_text(of_meter)
        self._labels = LabelSets(node, "rpc", "code")
        self._latencies: Histograms[tuple[str, str]] = Histograms(LATENCY)
        self._under_way: Counter[str] = Counter()
        service.unary = {path: self._unary(path, rpc) for path, rpc in service.unary.items()}
        service.streaming = {
            path: self._streaming(path, rpc) for path, rpc in service.streaming.items()
        }
        service.bidirectional = {
            path: self._bidirectional(path, rpc) for path, rpc in service.bidirectional.items()
        }

    # -- measuring ----------------------------------------------------------------------------

    def _unary(self, path: str, rpc: Unary) -> Unary:
        name = _name(path)

        async def measured(call: Call, data: bytes) -> bytes:
            return await self._measured(name, rpc(call, data), _code)

        return measured

    def _streaming(self, path: str, rpc: Streaming) -> Streaming:
        name = _name(path)

        async def measured(call: Call, data: bytes) -> Sequence[bytes] | None:
            return await self._measured(name, rpc(call, data), _first_code)

        return measured

    def _bidirectional(self, path: str, rpc: Bidirectional) -> Bidirectional:
        name = _name(path)

        async def counted(call: Call) -> None:
            self._under_way[name] += 1
            try:
                await rpc(call)
            finally:
                self._under_way[name] -= 1

        return counted

    async def _measured(
        self, name: str, answering: Awaitable[AnswerT], code_of: Callable[[AnswerT], str]
    ) -> AnswerT:
        began_s, code = self._clock.machine.monotonic(), FAILED
        self._under_way[name] += 1
        try:
            answer = await answering
            code = code_of(answer)
            return answer
        finally:
            self._under_way[name] -= 1
            latency_ms = (self._clock.machine.monotonic() - began_s) * 1000
            self._latencies[name, code].observe(latency_ms)

    # -- writing ------------------------------------------------------------------------------

    def page_of(self, server: GrpcServer) -> Page:
        """Returns what writes the metrics of the service behind a server."""

        async def page(request: ScrapeRequest) -> bytes | None:
            return await only_page(request, self._clock, lambda out: self._figures(out, server))

        return page

    def _figures(self, out: Exposition, server: GrpcServer) -> Iterator[int]:
        node = self._node
        for family, labels, value in (
            (UP, self._meter, 1),
            (CLIENTS, node, len(self._service.clients)),
            (CONNECTIONS, node, len(server.connections)),
            (REFUSED, node, server.refused_count),
            (BUILD, with_label(node, "version", VERSION), 1),
        ):
            out.begin(family)
            out.sample(labels, value)
        write_expiry(out, node, server.certificate_expires_ms)
        out.begin(UNDER_WAY)
        for name, count in sorted(self._under_way.items()):
            out.sample(with_label(node, "rpc", name), count)
        yield from self._latencies.write(out, lambda key: self._labels.text(*key))
        self._labels.end_scrape()


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _code(answer: bytes) -> str:
    """The code of an answer: the status is the first field of them all, as of a heartbeat's."""
    code = pb.HeartbeatResponse.FromString(answer).status.code
    return pb.Code.Name(code).lower()


def _first_code(frames: Sequence[bytes] | None) -> str:
    """The code of a receive, which its first frame has; none are left of one with messages."""
    return _code(frames[0]) if frames else "ok"
