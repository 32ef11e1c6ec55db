"""What a name server exports to Prometheus; loaded only where metrics are exported."""

from __future__ import annotations

from collections.abc import Iterator

from pocketmq.namesrv.route_table import RouteTable
from pocketmq.runtime import VERSION
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.metrics.endpoint import ScrapeRequest, only_page
from pocketmq.runtime.metrics.exposition import Exposition, Family, Kind, label_text, with_label
from pocketmq.transport.metering.certificate import write_expiry
from pocketmq.transport.metering.rpc_latency import RpcLatency
from pocketmq.transport.server import Server

BROKERS = Family("pocketmq_namesrv_brokers", Kind.GAUGE, "Registered brokers, by cluster")
ADDRESSES = Family("pocketmq_namesrv_live_brokers", Kind.GAUGE, "Broker processes that are alive")
CONNECTIONS = Family("pocketmq_namesrv_connections", Kind.GAUGE, "Open connections")
REFUSED = Family(
    "pocketmq_namesrv_refused_connections_total", Kind.COUNTER,
    "Connections closed at once: too many are open",
)  # fmt: skip
BUILD = Family("pocketmq_namesrv_build_info", Kind.GAUGE, "1, with the version as label")

CLUSTERS_MAX = 1000
"""Clusters that a page names."""


class NamesrvMetrics:
    """Writes a name server's metrics for each scrape.

    Args:
        routes: of the name server.
        server: of the name server.
        calls: is told of the server's answers.
        clock: gives turns to others.
    """

    def __init__(self, routes: RouteTable, server: Server, calls: RpcLatency, clock: Clock) -> None:
        self._routes, self._server, self._calls, self._clock = routes, server, calls, clock

    async def page(self, request: ScrapeRequest) -> bytes | None:
        """Writes ``/metrics``; None for other paths."""
        return await only_page(request, self._clock, self._figures)

    def _figures(self, out: Exposition) -> Iterator[int]:
        node = label_text({"node_type": "namesrv"})
        out.begin(BROKERS)
        clusters = self._routes.cluster_info().cluster_addr_table
        for cluster, broker_names in list(clusters.items())[:CLUSTERS_MAX]:
            labels = label_text({"node_type": "namesrv", "cluster": cluster})
            out.sample(labels, len(broker_names))
            yield 1
        yield from self._calls.write(out)
        out.begin(REFUSED)
        out.sample(node, self._server.refused_count)
        write_expiry(out, node, self._server.certificate_expires_ms)
        out.begin(ADDRESSES)
        out.sample(node, len(self._routes.live))
        out.begin(CONNECTIONS)
        out.sample(node, len(self._server.connections))
        out.begin(BUILD)
        out.sample(with_label(node, "version", VERSION), 1)
        yield 1
