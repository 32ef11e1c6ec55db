"""How many names clients may bring into a broker: of topics, of groups and of memberships."""

from __future__ import annotations

import logging

import msgspec

from pocketmq.broker.config.config import BrokerConfig
from pocketmq.transport.connection import Connection

NEW_NAMES = "new_names"
"""A connection's attribute: how many topics and groups it was the first to name."""

log = logging.getLogger("pocketmq.broker")


class NameLimits(msgspec.Struct, frozen=True):
    """How many names there may be.

    Attributes:
        topics, groups: of the broker; topics of retries and dead letters are as many as groups.
        of_connection: topics and groups that one connection may be the first to name, and groups
            in which it may be.
    """

    topics: int = 1_000_000
    groups: int = 100_000
    of_connection: int = 5_000

    @classmethod
    def of(cls, config: BrokerConfig) -> NameLimits:
        """The part of a broker's settings that limits names."""
        return cls(config.max_topics, config.max_groups, config.max_names_of_connection)

    def topics_full(self, count: int) -> str:
        """Why there can be no more topics than so many; empty if there can."""
        return "" if count < self.topics else _full(count, "topics", "maxTopics")

    def groups_full(self, count: int) -> str:
        """Why there can be no more groups than so many; empty if there can."""
        return "" if count < self.groups else _full(count, "groups", "maxGroups")

    def count_new(self, connection: Connection | None) -> str:
        """Counts a name that a connection is the first to use; returns why it may not, or nothing.

        Args:
            connection: it; None if nobody is to be limited.
        """
        if connection is None:
            return ""
        count = connection.attributes.get(NEW_NAMES, 0)
        if count <= self.of_connection:
            connection.attributes[NEW_NAMES] = count + 1
        if count < self.of_connection:
            return ""
        reason = (
            f"the connection has made {self.of_connection} topics and groups by naming them "
            f"(maxNamesOfConnection): create it by an administrative command"
        )
        if count == self.of_connection:
            log.warning("%s: %s", connection.peer_name, reason)
        return reason


def _full(count: int, kind: str, setting: str) -> str:
    return f"the broker has {count} {kind} ({setting}): delete some, or raise that setting"
