"""A proxy: the gRPC service before a cluster, without a state that must survive."""

from __future__ import annotations

from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Self

from pocketmq.auth.exposure import check_exposure
from pocketmq.protocol.messages.hosts import check_port
from pocketmq.protocol.signing import sign
from pocketmq.proxy.service import MessagingService
from pocketmq.proxy.standalone.backend import RemoteBackend
from pocketmq.proxy.standalone.config import ProxyConfig
from pocketmq.proxy.standalone.name_servers import NameServers
from pocketmq.proxy.standalone.users import ClusterUsers
from pocketmq.runtime.clock import Clock, SystemClock
from pocketmq.transport.connection import BeforeRequest
from pocketmq.transport.grpc.server import GrpcServer
from pocketmq.transport.grpc.service import Service
from pocketmq.transport.pool import ConnectionPool
from pocketmq.transport.tls.cluster_certificates import ClusterCertificates
from pocketmq.transport.tls.settings import ServerTls, TlsMode, client_tls, server_tls

if TYPE_CHECKING:  # it is loaded where metrics are exported
    from pocketmq.proxy.standalone.metrics import ProxyMetrics

GRACE_S = 5.0
"""How long calls under way may take when the proxy stops."""


class Proxy:
    """Serves RocketMQ 5's SDKs for a cluster: ``async with Proxy(config) as proxy``.

    Args:
        config: its settings.
        clock: the source of time.

    Attributes:
        address: where it listens, ``host:port``.
        metrics_port: where it is scraped; None if it is not.

    Raises:
        ConfigError: the settings do not fit, or it would be open to everybody.
    """

    def __init__(self, config: ProxyConfig, clock: Clock | None = None) -> None:
        check_exposure(
            "the proxy",
            config.bind_address,
            is_guarded=config.authentication_enabled,
            insecure=config.insecure,
        )
        check_port(config.grpc_server_port, "the proxy")
        self._config, self._clock = config, clock or SystemClock()
        self._name_servers, self._credentials = config.name_servers, config.credentials
        self._stack = AsyncExitStack()
        self.address = ""
        self.metrics_port: int | None = None

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await self._start(stack)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def _start(self, stack: AsyncExitStack) -> None:
        config, clock = self._config, self._clock
        credentials = self._credentials
        signing: tuple[BeforeRequest, ...] = ()
        if credentials is not None:
            signing = (partial(sign, credentials=credentials),)
        tls = client_tls(config)
        pool = ConnectionPool(clock, before_request=signing, tls=tls)
        stack.push_async_callback(pool.close)
        servers = NameServers(self._name_servers, pool, clock)
        users = None
        if config.authentication_enabled:
            assert credentials is not None, "the configuration says so"
            authorizes = config.authorization_enabled
            users = ClusterUsers(servers, pool, credentials, authorizes=authorizes)
            await users.learn()
        backend = RemoteBackend(servers, pool, clock, users, signing, tls)
        if users is not None:
            backend.tasks.spawn(users.follow(clock), "learn of users")
        stack.push_async_callback(backend.close)
        service = MessagingService(backend)
        metrics = self._metrics(service)
        server = GrpcServer(
            clock,
            Service(
                unary=service.unary,
                streaming=service.streaming,
                bidirectional=service.bidirectional,
            ),
            tls=self._server_tls(stack),
            connections_max=config.connections_max,
            connections_max_of_address=config.connections_max_of_address,
        )
        service.start()
        stack.push_async_callback(service.close)
        stack.push_async_callback(server.close, grace_s=GRACE_S)
        await server.listen(config.bind_address, config.grpc_server_port)
        self.address = server.address
        if metrics is not None:
            from pocketmq.transport.metering.scrape_port import open_scrape_port

            self.metrics_port = await open_scrape_port(
                metrics.page_of(server), config.metrics_prom_exporter_host,
                config.metrics_prom_exporter_port, clock,
                "the proxy (metricsPromExporterPort)", stack,
            )  # fmt: skip

    def _metrics(self, service: MessagingService) -> ProxyMetrics | None:
        """What measures the rpcs for Prometheus; None if nobody scrapes the proxy."""
        config = self._config
        if config.metrics_exporter_type != "PROM":
            return None
        from pocketmq.proxy.standalone.metrics import ProxyMetrics

        return ProxyMetrics(config.proxy_cluster_name, config.proxy_name, service, self._clock)

    def _server_tls(self, stack: AsyncExitStack) -> ServerTls:
        config = self._config
        if config.tls_server_mode != TlsMode.PERMISSIVE or config.tls_server_cert_path:
            return server_tls(config)
        folder = stack.enter_context(TemporaryDirectory(prefix="pocketmq-proxy-"))
        made = ClusterCertificates(Path(folder), self._clock.machine).server_settings
        return ServerTls(
            mode=TlsMode.PERMISSIVE,
            cert_path=made["tls_server_cert_path"],
            key_path=made["tls_server_key_path"],
        )
