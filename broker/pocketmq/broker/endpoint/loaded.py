"""The gRPC service of a broker: imported when the first client comes."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pocketmq.broker.endpoint.backend import LocalBackend
from pocketmq.broker.endpoint.endpoint import Wiring
from pocketmq.broker.parts import BrokerParts
from pocketmq.proxy.service import MessagingService
from pocketmq.transport.connection import BeforeRequest, Connection
from pocketmq.transport.grpc.server import GrpcServer
from pocketmq.transport.grpc.service import Service
from pocketmq.transport.pool import ConnectionPool
from pocketmq.transport.tls.cluster_certificates import ClusterCertificates
from pocketmq.transport.tls.settings import ServerTls, TlsMode, client_tls, server_tls

if TYPE_CHECKING:  # it is loaded where metrics are exported
    from pocketmq.proxy.metrics.rpc_metrics import RpcMetrics

TLS_FOLDER = "grpc-tls"
"""In the data directory: the certificate that the endpoint makes for itself. SDKs that speak TLS by
default (Java, Go, C#, C++) take any."""


class LoadedService:
    """The running service.

    Args:
        parts: of the broker.
        wiring: what else it is built of.
        before_request: signs requests to other brokers.
        on_close: called when the session of a client ends.
        metrics: measures the rpcs; None if nobody scrapes the broker.
    """

    def __init__(
        self,
        parts: BrokerParts,
        wiring: Wiring,
        before_request: tuple[BeforeRequest, ...],
        on_close: Callable[[Connection], object],
        metrics: RpcMetrics | None = None,
    ) -> None:
        config, clock = parts.data.settings.now, parts.clock
        self._pool = ConnectionPool(clock, before_request=before_request, tls=client_tls(config))
        self.backend = LocalBackend(
            parts, wiring.handlers, wiring.routes, self._pool, wiring.guard, on_close
        )
        self.service = MessagingService(self.backend)
        if metrics is not None:
            metrics.measure(self.service)
        self.server = GrpcServer(
            clock,
            Service(
                unary=self.service.unary,
                streaming=self.service.streaming,
                bidirectional=self.service.bidirectional,
            ),
            tls=_tls(parts),
            connections_max=config.connections_max,
            connections_max_of_address=config.connections_max_of_address,
        )
        if metrics is not None:
            metrics.follow(self.service, self.server)

    async def start(self, sockets: Sequence[socket.socket]) -> None:
        """Serves listening sockets."""
        self.service.start()
        await self.server.listen_on(sockets)

    async def close(self) -> None:
        """Ends calls, sessions and connections."""
        self.backend.release()
        await self.server.close(grace_s=0.5)
        await self.service.close()
        await self._pool.close()


def _tls(parts: BrokerParts) -> ServerTls:
    """As the broker's; without it plain calls and those over TLS, with a certificate made here."""
    own = server_tls(parts.data.settings.now)
    if own.mode is not TlsMode.DISABLED:
        return own
    directory = parts.data.store.directory / TLS_FOLDER
    made = ClusterCertificates(directory, parts.clock.machine).server_settings
    return ServerTls(
        mode=TlsMode.PERMISSIVE,
        cert_path=made["tls_server_cert_path"],
        key_path=made["tls_server_key_path"],
    )
