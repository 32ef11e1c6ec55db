"""Serves a follower's clients: a server of its own, until the member leads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from pocketmq.auth.audit_log.audit import Audit
from pocketmq.auth.settings import AuthSettings
from pocketmq.broker.config.config import BrokerConfig
from pocketmq.broker.endpoint.remoting import listen, remoting_server
from pocketmq.broker.handlers.access import audit_file, guard_of
from pocketmq.broker.handlers.leaving import leave
from pocketmq.broker.housekeeping import CLIENT_SCAN_PERIOD_S, IDLE_LOG_PERIOD_S, KEY_INDEX_PERIOD_S
from pocketmq.broker.replica.handlers import Leadership, replica_table
from pocketmq.broker.replica.parts import ReplicaParts, replica_parts
from pocketmq.broker.replication.following import Following
from pocketmq.broker.statistics.disk_forecast import LOOK_PERIOD_S
from pocketmq.broker.statistics.statistics import SAMPLE_PERIOD_S
from pocketmq.broker.store.store import MessageStore
from pocketmq.broker.turn_share import TurnShare
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.tasks import Tasks, repeat
from pocketmq.transport.connection import Connection, Handler

if TYPE_CHECKING:  # it is loaded where metrics are exported
    from pocketmq.transport.metering.metered import Meter


class ReplicaService:
    """Answers what a follower may answer, from its own copy.

    Args:
        store: of the broker.
        config: what the configuration says.
        auth: who may ask.
        clock: of the broker.
        stack: ends it.
        meter: is told of each answer; None if nobody wants to know.

    Attributes:
        server: the sockets and connections.
        handlers: what is answered, by request code.
        parts: what the handlers work with.

    Raises:
        ConfigError: passwords of users cannot be decrypted, or the address is open to everybody.
    """

    def __init__(
        self,
        store: MessageStore,
        config: BrokerConfig,
        auth: AuthSettings,
        clock: Clock,
        stack: AsyncExitStack,
        meter: Meter | None = None,
    ) -> None:
        self._store, self._config, self._auth, self._clock = store, config, auth, clock
        self._stack = stack
        self._connections = dict[Connection, None]()
        self.handlers: dict[int, Handler] = {}
        self.parts: ReplicaParts = replica_parts(store, config, clock, stack)
        self.server = remoting_server(
            config, clock, self.handlers, self._connections, self.parts.back_pressure,
            self._disconnected, meter=meter,
        )  # fmt: skip

    async def listen(self, port: int) -> None:
        """Opens the port.

        Raises:
            ConfigError, CannotListenError: see `remoting.listen`.
        """
        await listen(self.server, self._config, port)
        self._stack.push_async_callback(self.server.close)
        self._stack.callback(self.parts.polling.release_all)

    def serve(
        self,
        address: str,
        member_id: int,
        leadership: Leadership,
        of_set: Mapping[int, Handler],
        tasks: Tasks,
    ) -> None:
        """Begins to answer. Nothing may wait between `listen` and this call.

        Args:
            address: the address that clients use, ``host:port``.
            member_id: of this member.
            leadership: what it knows of its leader.
            of_set: handlers about the broker set.
            tasks: owns the periodic tasks.
        """
        parts, config = self.parts, self._config
        table = replica_table(parts, address, member_id, leadership, of_set)
        share = TurnShare(self._clock.machine)
        table = {code: share.guard(code, handler) for code, handler in table.items()}
        if config.authentication_enabled:
            table = parts.rate_limits.inner(table)
            guard = guard_of(
                self._auth, parts.data.users, self._store, config, self._clock, self._connections,
                parts.polling.release,
            )  # fmt: skip
            file = audit_file(config, self._store.directory, self._clock, self._stack)
            if file is not None:
                guard.refused.add(Audit(config.broker_name, self._clock, [file.write]).refused)
            table = guard.table(table)
        self.handlers.update(parts.rate_limits.outer(table))
        self._stack.callback(leave, self.handlers)
        self._start_rounds(tasks)

    def follow(self, following: Following) -> None:
        """Keeps the tables as a leader's are, and wakes pulls when there is more to read."""
        following.follower.shown.add(self.parts.polling.arrived)
        following.follower.changed.add(self.parts.data.follow)

    def _start_rounds(self, tasks: Tasks) -> None:
        config, store, parts = self._config, self._store, self.parts
        rounds: tuple[tuple[str, float, Callable[[], object]], ...] = (
            ("checkpoint", config.flush_interval_commit_log / 1000, store.checkpoint),
            ("idle logs", IDLE_LOG_PERIOD_S, store.logs.close_idle_logs),
            ("keys", KEY_INDEX_PERIOD_S, parts.keys.run),
            ("statistics", SAMPLE_PERIOD_S, parts.statistics.sample),
            ("disk forecast", LOOK_PERIOD_S, parts.disk_forecast.look),
            ("clients", CLIENT_SCAN_PERIOD_S, parts.members.expire),
        )
        for name, period_s, action in rounds:
            tasks.spawn(repeat(self._clock.machine, lambda p=period_s: p, action), name)  # type: ignore[misc]

    def _disconnected(self, connection: Connection) -> None:
        self.parts.polling.forget(connection)
        self.parts.members.forget(connection)
