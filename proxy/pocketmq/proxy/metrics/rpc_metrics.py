"""Measures the rpcs of RocketMQ 5's SDKs for Prometheus; loaded only where metrics are exported."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from pocketmq.proxy.calls import Call
from pocketmq.proxy.rpc import messaging_pb2 as pb
from pocketmq.proxy.service import Bidirectional, MessagingService, Streaming, Unary
from pocketmq.runtime.clock import Clock
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

AnswerT = TypeVar("AnswerT")

FAILED = "failed"
"""Stands for the code of a call that ended without an answer."""


class RpcMetrics:
    """Measures the rpcs of a service, and writes what it knows for each scrape.

    Args:
        node: the labels of all series.
        clock: measures.
    """

    def __init__(self, node: Mapping[str, str], clock: Clock) -> None:
        self._clock = clock
        self._node = label_text(node)
        self._labels = LabelSets(node, "rpc", "code")
        self._latencies: Histograms[tuple[str, str]] = Histograms(LATENCY)
        self._under_way: Counter[str] = Counter()
        self._served: tuple[MessagingService, GrpcServer] | None = None

    def measure(self, service: MessagingService) -> None:
        """Measures the rpcs of a service from now on: give them to the server after this."""
        service.unary = {path: self._unary(path, rpc) for path, rpc in service.unary.items()}
        service.streaming = {
            path: self._streaming(path, rpc) for path, rpc in service.streaming.items()
        }
        service.bidirectional = {
            path: self._bidirectional(path, rpc) for path, rpc in service.bidirectional.items()
        }

    def follow(self, service: MessagingService, server: GrpcServer) -> None:
        """Tells clients and connections of a service from now on, and of no other one."""
        self._served = (service, server)

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

    def write(self, out: Exposition) -> Iterator[int]:
        """Writes all of it; yields the work."""
        node = self._node
        if self._served is not None:
            service, server = self._served
            for family, value in (
                (CLIENTS, len(service.clients)),
                (CONNECTIONS, len(server.connections)),
                (REFUSED, server.refused_count),
            ):
                out.begin(family)
                out.sample(node, value)
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
