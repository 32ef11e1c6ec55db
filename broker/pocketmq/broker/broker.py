"""The life of a broker: the order in which its parts start and stop."""

from __future__ import annotations

import logging
import random
import socket
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import cached_property, partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import msgspec

from pocketmq.auth.settings import auth_settings
from pocketmq.broker.broker_set import BrokerSet, follow_changes
from pocketmq.broker.config.config import METRICS_PROM, BrokerConfig
from pocketmq.broker.endpoint.endpoint import GrpcEndpoint, Served, Wiring
from pocketmq.broker.endpoint.remoting import listen, remoting_server
from pocketmq.broker.handlers.access import broker_audit, broker_guard
from pocketmq.broker.handlers.leaving import leave
from pocketmq.broker.handlers.sending.answers import SendAnswers
from pocketmq.broker.handlers.table import handler_table
from pocketmq.broker.housekeeping import start_rounds
from pocketmq.broker.parts import BrokerParts, build_parts, claim_directory, load_data
from pocketmq.broker.redrive.building import redrives_of
from pocketmq.broker.registration.advertised_host import advertised_host
from pocketmq.broker.registration.registration import Registration
from pocketmq.broker.registration.routes import TopicRoutes
from pocketmq.broker.registration.telling import UserTelling
from pocketmq.broker.registration.vip_channel import listen_for_vips
from pocketmq.broker.replication.leading import Leading
from pocketmq.broker.store.disk.errors import FormatError
from pocketmq.broker.store.disk.files import Files
from pocketmq.broker.store.settings import StoreSettings
from pocketmq.broker.store.store import MessageStore
from pocketmq.broker.topics.restoring import restore_topics
from pocketmq.broker.topics.system_topics import create_system_topics
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.messages.hosts import encode_host, join_address
from pocketmq.protocol.signing import sign
from pocketmq.runtime.clock import Clock, SystemClock
from pocketmq.runtime.listeners import Listeners
from pocketmq.runtime.live import Live
from pocketmq.runtime.tasks import Tasks
from pocketmq.transport.connection import BeforeRequest, Connection, Handler
from pocketmq.transport.errors import CannotListenError
from pocketmq.transport.pool import Way

if TYPE_CHECKING:  # they are loaded where metrics are exported
    from pocketmq.broker.metrics.metering import Metering
    from pocketmq.transport.metering.metered import Meter

log = logging.getLogger("pocketmq.broker")


class Broker:
    """A broker: ``async with Broker(config) as broker:`` binds, recovers and registers.

    Args:
        config: the settings of the configuration; `config` has those in force, see `LiveSettings`.
        clock: the broker's time.
        files: the broker's disk; tests pass one that fails.
        seed: the seed of random choices, such as the queue for a message that names none.
        way: to the other members of a broker set, see `ConnectionPool`.

    Attributes:
        address: the address that clients use, ``host:port``.
        auth: who may ask.
        vip_port: the port of the VIP channel; None without one.
        grpc_endpoint: the port for RocketMQ 5's SDKs; None without one.
        metrics_port: where it is scraped; None if it is not.
        handlers: the handlers by request code.
        grpc_handlers: those that calls of the gRPC endpoint reach.
        server: the sockets and connections.
        registration: registers the broker with name servers.
        store, settings, topics, groups, offsets: the state kept in the data directory.
        parts: all parts that handlers work with.
        redrives: send dead letters again.
        broker_set: this broker as a member of its set; None if it stands alone.
        tables_changed: called when `tables` has changed.

    Raises:
        DirectoryInUseError, DirectoryError, FormatError, OwnerError: on entry, see `store.errors`.
        OSError: on entry, the address is in use.
    """

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock | None = None,
        *,
        files: Files | None = None,
        seed: int | None = None,
        way: Way | None = None,
    ) -> None:
        self._config: Live[BrokerConfig] = Live(config)
        self._configured = config
        self.clock: Clock = clock or SystemClock()
        self.address = ""
        self.vip_port: int | None = None
        self.metrics_port: int | None = None
        self._metering: Metering | None = None
        self._send_answers: type[SendAnswers] = SendAnswers
        self.grpc_endpoint: GrpcEndpoint | None = None
        self.handlers: dict[int, Handler] = {}
        self.grpc_handlers: dict[int, Handler] = {}
        self._files, self._random = files, random.Random(seed)
        self._connections = dict[Connection, None]()
        self._stack = AsyncExitStack()
        self._way = way
        self.broker_set: BrokerSet | None = None
        self.tables_changed: Listeners[[]] = Listeners()

    @property
    def config(self) -> BrokerConfig:
        """The settings in force."""
        return self._config.now

    @property
    def is_serving(self) -> bool:
        """Whether it answers all requests of clients: alone, or as the leader of its set."""
        leads = self.broker_set is None or self.broker_set.leading is not None
        return leads and RequestCode.SEND_MESSAGE in self.handlers

    @property
    def obstacles(self) -> list[str]:
        """What keeps it from doing its part, in a few words each, for probes; empty if nothing.

        A follower does its part when it has caught up with its leader: before that the leader must
        not be stopped.
        """
        found = []
        if self.store.disk.refusal is not None:
            found.append("the disk is full or fails")
        following = self.broker_set is not None and self.broker_set.leading is None
        if following and not (self.broker_set and self.broker_set.has_caught_up):
            found.append("not in step with the leader of its broker set")
        if not following and not self.is_serving:
            found.append("not serving")
        return found

    @property
    def tables(self) -> list[dict[int, Handler]]:
        """The tables of handlers by which it answers now, of the port and of gRPC."""
        of_follower = None if self.broker_set is None else self.broker_set.handlers_of_follower
        return [self.handlers, self.grpc_handlers] if of_follower is None else [of_follower]

    async def __aenter__(self) -> Broker:
        async with AsyncExitStack() as stack:
            try:
                await self._start(stack)
            except msgspec.DecodeError as e:
                path = Path(self.config.store_path_root_dir) / "meta.db"
                raise FormatError(
                    path,
                    f"a value in it cannot be read ({e}): restore it from a copy, or run "
                    f"`pocketmq store repair {path.parent}`",
                ) from e
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Unregisters, answers what was accepted, and closes the store cleanly. Idempotent.

        A leader of a broker set hands over to another member before.
        """
        stack, self._stack = self._stack, AsyncExitStack()
        await stack.aclose()

    async def _start(self, stack: AsyncExitStack) -> None:
        config, clock = self.config, self.clock
        self.auth = auth_settings(config)
        self.store = MessageStore(
            Path(config.store_path_root_dir), StoreSettings.of(config), clock, self._files,
            self._connections,
        )  # fmt: skip
        stack.push_async_callback(self.store.close)
        claim_directory(self.store, config)
        if config.metrics_exporter_type == METRICS_PROM:
            await self._export_metrics(stack)
        if not config.enable_controller_mode:
            await self.serve(config, None, stack)
            return
        self.broker_set = BrokerSet(self, config, self._before_request(), self._random, self._way)
        await self.broker_set.start(stack)

    async def _export_metrics(self, stack: AsyncExitStack) -> None:
        """Lets Prometheus scrape the broker, as a follower of its set, too."""
        from pocketmq.broker.metrics.broker_figures import Process, Served
        from pocketmq.broker.metrics.exporter import BrokerMetrics
        from pocketmq.broker.metrics.metered import MeteredSendAnswers
        from pocketmq.transport.metering.scrape_port import open_scrape_port

        config = self.config
        metrics = BrokerMetrics(
            config.broker_cluster_name,
            config.broker_name,
            config.metrics_max_series,
            lambda: Served(self.parts, self.redrives) if self.is_serving else None,
            Process(lambda: getattr(self, "server", None), lambda: self.broker_set),
            self.clock,
        )
        self._metering, self._send_answers = metrics.metering, MeteredSendAnswers
        self.metrics_port = await open_scrape_port(
            metrics.page, config.metrics_prom_exporter_host, config.metrics_prom_exporter_port,
            self.clock, f"{config.broker_name} (metricsPromExporterPort)", stack,
        )  # fmt: skip

    @property
    def meter(self) -> Meter | None:
        """Is told of each answer; None if nobody scrapes the broker."""
        return None if self._metering is None else self._metering.calls

    async def serve(
        self, config: BrokerConfig, leading: Leading | None, stack: AsyncExitStack
    ) -> None:
        """Answers clients from the open store until the stack is closed.

        Args:
            config: what the configuration says.
            leading: the leadership of a member of a broker set; None without a set.
            stack: ends it.
        """
        clock = self.clock
        metering = self._metering
        data = load_data(
            self.store, config, clock, stack, is_new_leader=leading is not None,
            appender=None if metering is None else metering.appender(self.store),
        )  # fmt: skip
        self.settings = self._config = data.settings
        self.topics, self.groups, self.offsets = data.topics, data.groups, data.offsets
        self.parts = await build_parts(data, clock, self._random, stack)
        if leading is not None:
            follow_changes(self.store, data, leading, self.parts.catch_up, stack)
        store_host = await self._listen(self.parts, leading, stack)

        tasks = Tasks()
        stack.push_async_callback(tasks.close)
        registration = self.registration = self._registration()
        stack.push_async_callback(registration.close)
        stack.push_async_callback(registration.unregister)
        if registration.servers:
            await registration.register()
            self.topics.changed.add(registration.request)
            tasks.spawn(registration.register_on_request(), "register on request")
        self.store.remove_deleted()
        start_rounds(self.parts, registration, store_host, tasks)
        log.info(
            "%s serves %s from %s", self.config.broker_name, self.address, self.store.directory
        )

    async def _listen(
        self, parts: BrokerParts, leading: Leading | None, stack: AsyncExitStack
    ) -> bytes:
        """Accepts connections and answers requests; returns the host that stored messages name."""
        config, store = self.config, self.store
        self.server = server = remoting_server(
            config, self.clock, self.handlers, self._connections, parts.back_pressure,
            self._disconnected, read_events=store.committer, meter=self.meter,
        )  # fmt: skip
        # From here to the table of handlers nothing waits: whoever connects finds all of them.
        is_guarded = config.authentication_enabled
        guard = broker_guard(self.auth, parts, self._connections) if is_guarded else None
        await listen(server, config, config.listen_port)
        stack.push_async_callback(server.close)
        stack.push_async_callback(store.drain)
        stack.callback(parts.polling.release_all)
        stack.callback(parts.waiting.release_all)
        own_host = advertised_host(config)
        self.address = join_address(own_host, server.port)
        store_host = encode_host(own_host, server.port)
        create_system_topics(self.topics, config)
        self.settings.follow(lambda config: create_system_topics(self.topics, config))
        restore_topics(self.topics, store, store.orphan_logs, config.default_topic_queue_nums)
        parts.schedule.start()
        parts.popping.revival.start()
        redrives = self.redrives = redrives_of(parts, store_host)
        redrives.start()
        stack.push_async_callback(redrives.close)
        audit = broker_audit(parts, store_host, stack)
        if guard is not None and audit is not None:
            guard.refused.add(audit.refused)
        routes = TopicRoutes(
            self.settings, self.address, self.topics, self.clock, self._before_request()
        )
        stack.push_async_callback(routes.close)
        tables = handler_table(
            parts, self.address, store_host, routes, redrives, guard, audit, self._user_telling,
            leading,
            None if self.broker_set is None else self.broker_set.handlers(),
            self._send_answers,
        )  # fmt: skip
        if self._metering is not None:
            self._metering.follow(parts, guard)
        stack.callback(leave, self.handlers)
        stack.callback(self.grpc_handlers.clear)
        self.handlers.clear()
        self.handlers.update(tables.outer)
        self.grpc_handlers.update(tables.inner)
        self.tables_changed.notify()
        await self._listen_for_grpc(Wiring(self.grpc_handlers, routes, guard), stack)
        self.vip_port = await listen_for_vips(server, config)
        return store_host

    @property
    def grpc_port(self) -> int | None:
        """The port of the gRPC endpoint; None without one."""
        return None if self.grpc_endpoint is None else self.grpc_endpoint.port

    async def _listen_for_grpc(self, wiring: Wiring, stack: AsyncExitStack) -> None:
        """Opens the port for RocketMQ 5's SDKs, if there is to be one."""
        config = self.config
        host, port = config.bind_address, config.grpc_server_port
        if port < 0:
            return

        async def load(sockets: Sequence[socket.socket]) -> Served:
            from pocketmq.broker.endpoint.loaded import LoadedService

            loaded = LoadedService(
                self.parts, wiring, self._before_request(), self._disconnected,
                None if self._metering is None else self._metering.rpcs(),
            )  # fmt: skip
            await loaded.start(sockets)
            return loaded

        endpoint = GrpcEndpoint(load)
        try:
            await endpoint.listen(host, port)
        except OSError as e:
            raise CannotListenError(f"{config.broker_name} (grpcServerPort)", host, port, e) from e
        stack.push_async_callback(endpoint.close)
        self.grpc_endpoint = endpoint

    def _registration(self) -> Registration:
        """What registers the broker; it signs if the servers of the cluster have credentials."""
        if self.auth.inner is None:
            return Registration(self.settings, self.address, self.topics, self.clock.machine)
        registration = Registration(
            self.settings,
            self.address,
            self.topics,
            self.clock.machine,
            before_request=self._before_request(),
            telling=self._user_telling,
        )
        self.parts.data.users.changed.add(lambda _: registration.request())
        return registration

    @cached_property
    def _user_telling(self) -> UserTelling | None:
        """Has the users that other servers of the cluster are told; None if they need none.

        Of one leadership; see `forget_role`.
        """
        inner = self.auth.inner
        if inner is None or not self.auth.is_authenticating:
            return None
        return UserTelling(self.parts.data.users, inner, self.clock)

    def forget_role(self) -> None:
        """Forgets what belonged to a leadership that has ended."""
        self.__dict__.pop("_user_telling", None)
        self.grpc_endpoint = None

    def _before_request(self) -> tuple[BeforeRequest, ...]:
        """What signs requests to other servers of the cluster, if they have credentials."""
        inner = self.auth.inner
        return () if inner is None else (partial(sign, credentials=inner),)

    def _disconnected(self, connection: Connection) -> None:
        if self.broker_set is not None:
            self.broker_set.disconnected(connection)
        self.parts.polling.forget(connection)
        self.parts.waiting.forget(connection)
        self.parts.members.forget(connection)
