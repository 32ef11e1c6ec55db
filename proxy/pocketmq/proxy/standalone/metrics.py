"""What a proxy exports to Prometheus; loaded only where metrics are exported."""

from __future__ import annotations

import socket
from collections.abc import Iterator

from pocketmq.proxy.metrics.rpc_metrics import RpcMetrics
from pocketmq.proxy.service import MessagingService
from pocketmq.runtime import VERSION
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.metrics.endpoint import Page, ScrapeRequest, only_page
from pocketmq.runtime.metrics.exposition import Exposition, Family, Kind, label_text, with_label
from pocketmq.transport.grpc.server import GrpcServer
from pocketmq.transport.metering.certificate import write_expiry

UP = Family("rocketmq_proxy_up", Kind.GAUGE, "1: the proxy is there")
BUILD = Family("pocketmq_proxy_build_info", Kind.GAUGE, "1, with the version as label")


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
        self._rpcs = RpcMetrics(node, clock)
        self._rpcs.measure(service)

    def page_of(self, server: GrpcServer) -> Page:
        """Returns what writes the metrics of the service behind a server."""
        self._rpcs.follow(self._service, server)

        async def page(request: ScrapeRequest) -> bytes | None:
            return await only_page(request, self._clock, lambda out: self._figures(out, server))

        return page

    def _figures(self, out: Exposition, server: GrpcServer) -> Iterator[int]:
        node = self._node
        for family, labels in ((UP, self._meter), (BUILD, with_label(node, "version", VERSION))):
            out.begin(family)
            out.sample(labels, 1)
        write_expiry(out, node, server.certificate_expires_ms)
        yield from self._rpcs.write(out)
