"""The name server as a whole: its parts, its start and its stop."""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import msgspec

from pocketmq.auth.audit_log.audit import Audit
from pocketmq.auth.audit_log.file import AuditFile
from pocketmq.auth.exposure import check_exposure
from pocketmq.namesrv.access import access_of
from pocketmq.namesrv.arbiter import ArbiterFile
from pocketmq.namesrv.config import NamesrvConfig
from pocketmq.namesrv.handlers import handler_table
from pocketmq.namesrv.kv_config import KVConfig
from pocketmq.namesrv.route_table import RouteTable
from pocketmq.protocol.messages.hosts import join_address, split_address
from pocketmq.runtime.clock import Clock, SystemClock
from pocketmq.runtime.slices import call_in_slice, next_slice
from pocketmq.runtime.tasks import Tasks, repeat
from pocketmq.transport.connection import Connection
from pocketmq.transport.errors import CannotListenError
from pocketmq.transport.frame_budget import FrameBudget
from pocketmq.transport.server import Server
from pocketmq.transport.tls.settings import server_tls

if TYPE_CHECKING:  # it is loaded where metrics are exported
    from pocketmq.transport.metering.rpc_latency import RpcLatency

log = logging.getLogger("pocketmq.namesrv")

UNREAD_SIZE_MAX = 64 * 1024 * 1024
"""Bytes of large frames that are not complete or not handled: all brokers may register at once."""

_ANY_TO_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104


class NameServer:
    """Tells clients where the queues of a topic are.

    ``async with NameServer(config) as name_server:`` binds on entry and stops on exit.

    Args:
        config: its settings; a copy is taken, because they can be changed by request.
        clock: stamps registrations and finds the silent ones.

    Attributes:
        handlers: what it answers, by request code.
        routes: the topics and addresses that brokers have registered.
        access: who may ask for what; None for everybody.
        arbiter: the file of broker sets' states; None without arbiterPath.
        metrics_port: where it is scraped; None if it is not.

    Raises:
        ConfigError: the settings do not fit together.
    """

    def __init__(self, config: NamesrvConfig | None = None, clock: Clock | None = None) -> None:
        self._config = msgspec.structs.replace(config or NamesrvConfig())
        self._clock = clock or SystemClock()
        self.routes = RouteTable()
        path = self._config.kv_config_path
        self._kv = KVConfig(Path(path).expanduser() if path else None)
        connections = dict[Connection, None]()
        self.access = access_of(self._config, self.routes, self._clock, connections)
        self._audit_file = self._open_audit()
        arbiter_path = self._config.arbiter_path
        self.arbiter = ArbiterFile(Path(arbiter_path).expanduser()) if arbiter_path else None
        self._budget = FrameBudget(self._clock.machine, UNREAD_SIZE_MAX)
        self.handlers = handler_table(
            self.routes,
            self._kv,
            self._config,
            self._clock,
            self.access,
            self._audit(),
            self.arbiter,
            self._budget,
        )
        self._calls = _calls_of(self._config)
        self._server = Server(
            self._clock,
            self.handlers,
            on_close=self._connection_closed,
            connections_max_of_address=self._config.connections_max_of_address,
            connections=connections,
            budget=self._budget,
            tls=server_tls(self._config),
            meter=self._calls,
        )
        self._stack = AsyncExitStack()
        self.metrics_port: int | None = None

    async def __aenter__(self) -> Self:
        """Binds the address and starts to answer.

        Raises:
            ConfigError: the address cannot be listened on.
            KVConfigError: the file of the KV configuration is damaged.
        """
        self._kv.load()
        async with AsyncExitStack() as stack:
            if self._audit_file is not None:
                stack.callback(self._audit_file.close)
            if self.arbiter is not None:
                stack.callback(self.arbiter.close)
            stack.push_async_callback(self._kv.close)
            stack.push_async_callback(self._server.close)
            await self._listen()
            if self._config.metrics_exporter_type == "PROM":
                await self._export_metrics(stack)
            tasks = Tasks()
            stack.push_async_callback(tasks.close)
            tasks.spawn(
                repeat(self._clock, self._scan_period_s, self._drop_silent),
                "scan of silent brokers",
            )
            self._stack = stack.pop_all()
        log.info("the name server listens on %s", self.address)
        if self._config.kv_config_path is None:
            log.info("kvConfigPath is not set: the KV configuration ends with this process")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def _open_audit(self) -> AuditFile | None:
        config = self._config
        if not config.audit_log_path:
            return None
        path = Path(config.audit_log_path).expanduser()
        return AuditFile(path, config.audit_log_size_max, self._clock)

    def _audit(self) -> Audit | None:
        if self._audit_file is None:
            return None
        audit = Audit("namesrv", self._clock, [self._audit_file.write])
        if self.access is not None:
            self.access.guard.refused.add(audit.refused)
        return audit

    async def close(self) -> None:
        """Answers requests that came in, closes all connections and frees the port. Idempotent."""
        await self._stack.aclose()

    @property
    def address(self) -> str:
        """The ``host:port`` at which programs on this machine reach the server."""
        host, port = split_address(self._server.address)
        return join_address(_ANY_TO_LOOPBACK.get(host, host), port)

    async def _listen(self) -> None:
        host, port = self._config.bind_address, self._config.listen_port
        check_exposure(
            "the name server",
            host,
            is_guarded=self.access is not None,
            insecure=self._config.insecure,
        )
        try:
            await self._server.listen(host, port)
        except OSError as e:
            raise CannotListenError("the name server", host, port, e) from e

    async def _export_metrics(self, stack: AsyncExitStack) -> None:
        from pocketmq.namesrv.metrics import NamesrvMetrics
        from pocketmq.transport.metering.scrape_port import open_scrape_port

        config = self._config
        assert self._calls is not None, "the configuration says so"
        metrics = NamesrvMetrics(self.routes, self._server, self._calls, self._clock)
        self.metrics_port = await open_scrape_port(
            metrics.page, config.metrics_prom_exporter_host, config.metrics_prom_exporter_port,
            self._clock, "the name server (metricsPromExporterPort)", stack,
        )  # fmt: skip

    def _connection_closed(self, connection: Connection) -> None:
        if self.routes.live.on(connection):  # many brokers may go at once, with all their topics
            call_in_slice(partial(self._forget_brokers_on, connection))

    def _forget_brokers_on(self, connection: Connection) -> None:
        for key in self.routes.connection_closed(connection):
            log.info("broker %s is gone: its connection is closed", key.address)

    def _scan_period_s(self) -> float:
        return self._config.scan_not_active_broker_interval / 1000

    async def _drop_silent(self) -> None:
        for key, channel in self.routes.expire(self._clock.now_ms()):
            log.warning("broker %s of %s was silent for too long", key.address, key.cluster)
            if isinstance(channel, Connection):
                channel.close("no registration in time")
            await next_slice(self._clock)


def _calls_of(config: NamesrvConfig) -> RpcLatency | None:
    """What is told of each answer; None if nobody scrapes the name server."""
    if config.metrics_exporter_type != "PROM":
        return None
    from pocketmq.transport.metering.rpc_latency import RpcLatency

    return RpcLatency({"node_type": "namesrv"})
