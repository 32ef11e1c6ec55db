"""Which clients are alive, and who is told when a consumer group's members change (40)."""

from __future__ import annotations

import asyncio
import logging

import msgspec

from pocketmq.broker.config.config import BrokerConfig
from pocketmq.broker.groups.clients import (
    ConsumerGroup,
    ConsumerTable,
    ProducerTable,
    expired_connections,
)
from pocketmq.broker.groups.groups import GroupTable
from pocketmq.protocol.requests.clients import ConsumerIdsChangedRequest
from pocketmq.protocol.wire.command import Command
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.live import Live
from pocketmq.transport.connection import Connection

log = logging.getLogger("pocketmq.broker")


class MembershipSettings(msgspec.Struct, frozen=True):
    """The settings of living clients.

    Attributes:
        is_notifying: tell members of changes (notifyConsumerIdsChangedEnable).
        expired_s: a client without a heartbeat for so long is gone (channelExpiredTimeout).
    """

    is_notifying: bool
    expired_s: float

    @classmethod
    def of(cls, config: BrokerConfig) -> MembershipSettings:
        """The part of a broker's settings that the living clients depend on."""
        return cls(
            is_notifying=config.notify_consumer_ids_changed_enable,
            expired_s=config.channel_expired_timeout / 1000,
        )


class Membership:
    """The tables of living clients; tells consumers when members of their group come or go.

    Args:
        groups: says which groups want to be told.
        clock: of the broker.
        settings: whether and when.

    Attributes:
        producers, consumers: the living clients by group.
    """

    def __init__(
        self, groups: GroupTable, clock: Clock, settings: Live[MembershipSettings]
    ) -> None:
        self._groups, self._clock, self._settings = groups, clock.machine, settings
        self.producers = ProducerTable()
        self.consumers = ConsumerTable(self._members_changed)
        self._changed: dict[str, None] = {}

    def _members_changed(self, name: str, _: ConsumerGroup) -> None:
        """Schedules a notice to a group's members for the end of this iteration of the loop.

        They get one notice, however many members came or went: when a thousand connections break
        together, each of the others would otherwise get a thousand.
        """
        if not self._settings.now.is_notifying:
            return
        if not self._changed:
            asyncio.get_running_loop().call_soon(self._notify_members)
        self._changed[name] = None

    def _notify_members(self) -> None:
        """Sends 40 to all members of the groups that have changed."""
        changed, self._changed = self._changed, {}
        for name in changed:
            config, group = self._groups.get(name), self.consumers.get(name)
            if group is None or (
                config is not None and not config.notify_consumer_ids_changed_enable
            ):
                continue
            request = ConsumerIdsChangedRequest(consumer_group=name)
            for connection in list(group.members):
                connection.notify(Command(request.code, header=request))

    def forget(self, connection: Connection) -> None:
        """Removes the clients of a closed connection from their groups."""
        self.producers.leave_all(connection)
        self.consumers.leave_all(connection)

    def expire(self) -> None:
        """Closes the connections of clients that have sent no heartbeat for too long."""
        expired_s = self._settings.now.expired_s
        for connection in expired_connections(
            self._clock, expired_s, self.producers, self.consumers
        ):
            log.info("forgetting %s: no heartbeat in %g s", connection.remote_address, expired_s)
            connection.close("no heartbeat")
