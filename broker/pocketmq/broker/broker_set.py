"""A broker as a member of a broker set: what it serves while it leads, and while it follows."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Protocol

import msgspec

from pocketmq.auth.settings import AuthSettings
from pocketmq.broker.config.agreed import agreed_settings
from pocketmq.broker.config.config import BrokerConfig
from pocketmq.broker.config.controller import Controller, parse_controller
from pocketmq.broker.handlers.replication.controller import ControllerHandlers
from pocketmq.broker.handlers.replication.ha_status import MemberStatusHandlers
from pocketmq.broker.parts import BrokerState
from pocketmq.broker.refusals import unavailable
from pocketmq.broker.registration.advertised_host import advertised_host
from pocketmq.broker.registration.registration import Registration
from pocketmq.broker.replica.service import ReplicaService
from pocketmq.broker.replication.arbiter import Arbiter, FencedArbiter, NameServerArbiter
from pocketmq.broker.replication.elections import Elections
from pocketmq.broker.replication.etcd import EtcdArbiter, EtcdSettings
from pocketmq.broker.replication.following import Following, Identity
from pocketmq.broker.replication.leader import Share
from pocketmq.broker.replication.leading import Leading
from pocketmq.broker.replication.member import Member, directory_id
from pocketmq.broker.replication.set_state import SetState
from pocketmq.broker.store.store import MessageStore
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.errors import ConfigError, OperatingError
from pocketmq.protocol.messages.hosts import join_address
from pocketmq.protocol.wire.command import Command
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.listeners import Listeners
from pocketmq.runtime.live import Live
from pocketmq.runtime.tasks import Tasks, repeat
from pocketmq.transport.connection import BeforeRequest, Connection, Handler, Reply
from pocketmq.transport.pool import ConnectionPool, Way
from pocketmq.transport.server import Server
from pocketmq.transport.tls.settings import ClientTls, client_tls

if TYPE_CHECKING:  # it is loaded where metrics are exported
    from pocketmq.transport.metering.metered import Meter

log = logging.getLogger("pocketmq.broker")


class ServingBroker(Protocol):
    """What a set needs of its broker."""

    store: MessageStore
    clock: Clock
    address: str
    server: Server

    auth: AuthSettings
    tables_changed: Listeners[[]]

    @property
    def grpc_port(self) -> int | None: ...  # noqa: D102

    @property
    def meter(self) -> Meter | None: ...  # noqa: D102

    async def serve(
        self, config: BrokerConfig, leading: Leading | None, stack: AsyncExitStack
    ) -> None:
        """Answers clients until the stack is closed."""

    def forget_role(self) -> None:
        """Forgets what belonged to a leadership that has ended."""


class BrokerSet:
    """Runs one broker as a member of its set.

    Args:
        broker: the broker, whose store is open.
        config: its configuration.
        before_request: signs what it asks other servers.
        chance: makes ids.
        way: to the other members and the arbiter, see `ConnectionPool`.

    Raises:
        ConfigError: the member has no id of its own.
    """

    def __init__(
        self,
        broker: ServingBroker,
        config: BrokerConfig,
        before_request: tuple[BeforeRequest, ...],
        chance: random.Random,
        way: Way | None = None,
    ) -> None:
        if not config.broker_id:
            raise ConfigError(
                "enableControllerMode needs a brokerId of its own in each member of the set, from "
                "1 on: whichever member leads is shown as 0"
            )
        self._broker, self._config = broker, config
        self._before_request, self._chance, self._way = before_request, chance, way
        self._tls = client_tls(config)
        self._role: AsyncExitStack | None = None
        self._is_resting = False
        self._registration: Registration | None = None
        self._tasks = Tasks()
        self._port, self._grpc_port = config.listen_port, config.grpc_server_port
        self._following: Following | None = None
        self._state: SetState | None = None
        self._member: Member | None = None
        self._elections: Elections | None = None
        self._service: ReplicaService | None = None
        self._has_true_ends = self._is_forsaken = False
        self.leading: Leading | None = None

    @property
    def member(self) -> Member:
        """The member, once it is started."""
        assert self._member is not None
        return self._member

    async def start(self, stack: AsyncExitStack) -> None:
        """Listens, and begins to lead or to follow."""
        config, broker = self._config, self._broker
        pool = self._pool = self._dial({}, lambda _: None)
        stack.push_async_callback(pool.close)
        self._arbiter = FencedArbiter(self._connect_arbiter(pool, stack))
        self._directory_id = directory_id(broker.store, self._chance)
        stack.push_async_callback(self._end_role)
        await self.rest(None, None)
        self._member = Member(
            self._identity, lambda: config, broker.store, self._arbiter, self._dial, self,
            broker.clock, self._chance,
        )  # fmt: skip
        self._elections = Elections(self._member, broker.store, broker.clock)
        tasks = Tasks()
        stack.push_async_callback(tasks.close)
        tasks.spawn(self._member.run(), "lead or follow")
        stack.push_async_callback(self._hand_over)

    def _connect_arbiter(self, pool: ConnectionPool, stack: AsyncExitStack) -> Arbiter:
        config = self._config
        controller = parse_controller(config.arbiter_text)
        if not controller.is_etcd:
            return NameServerArbiter(pool, controller.addresses)
        etcd = EtcdArbiter(etcd_settings(config, controller), self._broker.clock)
        stack.push_async_callback(etcd.close)
        return etcd

    @property
    def _identity(self) -> Identity:
        config = self._config
        return Identity(
            cluster=config.broker_cluster_name,
            broker_name=config.broker_name,
            member_id=config.broker_id,
            address=self._broker.address,
            directory_id=self._directory_id,
            agreed=agreed_settings(config),
        )

    def handlers(self) -> dict[int, Handler]:
        """What this member answers about its set, in the role that it has."""
        identity, leading, store = self._identity, self.leading, self._broker.store
        status = MemberStatusHandlers(
            identity,
            store,
            leading,
            lambda: self._following,
            lambda: self._state,
            self._broker.clock,
        )
        controller = ControllerHandlers(identity, self._config, self._arbiter, self._pool, leading)
        of_operator: dict[int, Handler] = {
            RequestCode.DESCRIBE_MEMBER: self._of_operator,
            RequestCode.ELECT_MEMBER: self._of_operator,
        }
        return {**status.table(), **controller.table(), **of_operator}

    async def _hand_over(self) -> None:
        """Has another member lead before this one stops, if one can."""
        if self.leading is None or self._is_forsaken:
            return
        try:
            await self.leading.hand_over(-1, "the leader is stopped")
        except OperatingError as e:
            log.info("nobody takes over from %s: %s", self._config.broker_name, e)

    async def forsake(self) -> None:
        """Gives up its part as a process that dies does: nobody is told, nothing handed over."""
        self._is_forsaken = True
        await self._pool.close()  # whom it loses from now on stays in the in-sync set
        if self._registration is not None:
            await self._registration.close()

    @property
    def handlers_of_follower(self) -> dict[int, Handler] | None:
        """What a follower answers; None while this member leads."""
        return None if self._service is None else self._service.handlers

    def _dial(
        self, handlers: Mapping[int, Handler], on_close: Callable[[Connection], object]
    ) -> ConnectionPool:
        return ConnectionPool(
            self._broker.clock,
            handlers,
            before_request=self._before_request,
            on_close=on_close,
            tls=self._tls,
            way=self._way,
        )

    # -- roles --------------------------------------------------------------------------------

    async def lead(self, leading: Leading) -> None:
        """See `Serving`."""
        # It stays registered as a follower meanwhile: a name server that knows no member of a set
        # forgets the set's topics.
        before, self._registration = self._registration, None
        await self._end_role()
        broker = self._broker
        config = msgspec.structs.replace(
            self._config, broker_id=0, listen_port=self._port, grpc_server_port=self._grpc_port
        )
        self._role = AsyncExitStack()
        self.leading, self._has_true_ends = leading, True
        leading.further = self.elections()
        try:
            await broker.serve(config, leading, self._role)
        finally:
            if before is not None:
                await before.close()
        self._grpc_port = self._grpc_port if broker.grpc_port is None else broker.grpc_port

    async def rest(self, following: Following | None, state: SetState | None) -> None:
        """See `Serving`."""
        if self._following is not None and self._following.follower.is_readable:
            self._has_true_ends = True
        self._following, self._state = following, state
        if not self._is_resting:
            await self._rest()
        if following is not None and self._service is not None:
            self._service.follow(following)
        if state is not None and self._registration is None:
            self._register()

    def _register(self) -> None:
        """Registers as a follower, under this member's own id."""
        broker, service = self._broker, self._service
        assert service is not None
        registration = self._registration = Registration(
            Live(self._config),
            broker.address,
            service.parts.data.topics,
            broker.clock.machine,
            before_request=self._before_request,
        )
        period_s = self._config.register_name_server_period / 1000
        self._tasks.spawn(registration.register(), "register as a follower")
        self._tasks.spawn(
            repeat(broker.clock.machine, lambda: period_s, registration.register_if_changed),
            "register",
        )

    async def _rest(self) -> None:
        """Begins to serve as a follower."""
        await self._end_role()
        config, broker = self._config, self._broker
        stack = self._role = AsyncExitStack()
        self._is_resting = True
        service = self._service = ReplicaService(
            broker.store, config, broker.auth, broker.clock, stack, broker.meter
        )
        broker.server = service.server
        await service.listen(self._port)
        self._port = service.server.port
        broker.address = join_address(advertised_host(config), self._port)
        tasks = self._tasks = Tasks()
        stack.push_async_callback(tasks.close)
        service.serve(broker.address, config.broker_id, self, self.handlers(), tasks)
        broker.tables_changed.notify()
        tasks.spawn(
            repeat(
                broker.clock.machine,
                lambda: config.flush_consumer_offset_interval / 1000,
                self._save,
            ),
            "offsets",
        )

    def _save(self) -> None:
        if self._following is not None:
            self._following.follower.save_offsets()

    # -- what a follower's handlers ask ---------------------------------------------------------

    @property
    def is_readable(self) -> bool:
        """See `Leadership`."""
        following = self._following
        return self._has_true_ends or (following is not None and following.follower.is_readable)

    @property
    def has_leader(self) -> bool:
        """See `Leadership`."""
        following = self._following
        return following is not None and following.follower.is_live and not following.ended.done()

    @property
    def has_caught_up(self) -> bool:
        """Whether this member follows a leader, and has all that the leader has."""
        following = self._following
        return self.has_leader and following is not None and following.follower.is_readable

    @property
    def leader_text(self) -> str:
        """See `Leadership`."""
        state = self._state
        return f"member {state.leader_id} at {state.leader.address}" if state else "nobody yet"

    def elections(self) -> dict[int, Handler]:
        """What an operator asks of any member, whether it leads or follows."""
        return {} if self._elections is None else self._elections.handlers()

    def _of_operator(self, command: Command, connection: Connection) -> Reply:
        handlers = self.elections()
        if not handlers:
            raise unavailable("this member of the broker set is starting")
        return handlers[command.code](command, connection)

    async def _end_role(self) -> None:
        role, self._role = self._role, None
        registration, self._registration = self._registration, None
        self._is_resting, self.leading, self._service = False, None, None
        if role is None:
            return
        if registration is not None:
            await registration.unregister()
            await registration.close()
        await role.aclose()
        store = self._broker.store
        for listeners in (store.committer.appended, store.checkpointed, store.logs.dropped):
            listeners.clear()
        store.flusher.answered.clear()
        self._broker.forget_role()

    def disconnected(self, connection: Connection) -> None:
        """Notes that a connection is gone, which may be a follower's."""
        if self.leading is not None:
            self.leading.disconnected(connection)


def etcd_settings(config: BrokerConfig, controller: Controller) -> EtcdSettings:
    """How a broker reaches etcd."""
    tls = ClientTls(
        trust_cert_path=config.etcd_trust_cert_path,
        cert_path=config.etcd_cert_path,
        key_path=config.etcd_key_path,
        key_password=config.etcd_key_password,
    )
    return EtcdSettings(
        addresses=controller.addresses,
        user=config.etcd_user,
        password=config.etcd_password,
        tls=tls if controller.is_tls else None,
    )


def follow_changes(
    store: MessageStore,
    data: BrokerState,
    leading: Leading,
    share: Share,
    stack: AsyncExitStack,
) -> None:
    """Has a leader tell its followers of committed offsets and removed records, too.

    Args:
        store, data: of the broker.
        leading: the leadership.
        share: what followers that catch up may take of the time.
        stack: ends it.
    """
    data.offsets.on_commit = leading.leader.note_offset
    store.logs.dropped.add(leading.leader.note_low)
    leading.leader.share = share
    data.topics.enter_epoch(leading.state.epoch)

    def save() -> None:
        data.groups.save()
        data.topics.save()
        data.offsets.save()

    def unhook() -> None:
        leading.leader.share = None
        data.offsets.on_commit = None
        leading.before_join = lambda: None

    leading.before_join = save
    stack.callback(unhook)
