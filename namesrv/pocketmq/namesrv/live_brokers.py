"""Broker processes: when each was last heard of, on which connection, and at which addresses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from pocketmq.namesrv.broker_registration import BrokerKey
from pocketmq.protocol.bodies.topics import DataVersion
from pocketmq.protocol.names.advertise import Advertised, IPAddress


class TopicsRole(NamedTuple):
    """Whether the topics that a broker registers count, and which permissions they may have."""

    counts: bool
    perm_mask: int


class TakenTopics(NamedTuple):
    """The body that a broker's topics were taken from, and what they were taken for.

    While all of it is the same, the same registration again changes nothing.

    Attributes:
        digest: of the body.
        membership: of the broker name, see `TopicQueueTable.membership`.
        drops_others: whether other topics were to be removed.
    """

    digest: bytes
    broker_name: str
    broker_id: int
    role: TopicsRole
    membership: int
    drops_others: bool


class LiveBroker(msgspec.Struct):
    """When a broker process was last heard of, and what else belongs to the process."""

    broker_name: str
    updated_ms: int
    timeout_ms: int
    version: DataVersion
    ha_address: str
    advertised: Advertised
    channel: object
    taken: TakenTopics | None = None


class LiveBrokers:
    """Broker processes by identity, by connection, and those with addresses for some callers.

    Attributes:
        addresses_generation: grows when rules change by which callers get addresses.
    """

    def __init__(self) -> None:
        self._live: dict[BrokerKey, LiveBroker] = {}
        self._on: dict[object, dict[BrokerKey, None]] = {}
        self._advertised: dict[BrokerKey, Advertised] = {}  # of brokers that have rules
        self.addresses_generation = 0

    def __len__(self) -> int:
        return len(self._live)

    def __iter__(self) -> Iterator[BrokerKey]:
        return iter(self._live)

    def __contains__(self, key: object) -> bool:
        return key in self._live

    def get(self, key: BrokerKey) -> LiveBroker | None:
        """Returns a broker; None if it is not known."""
        return self._live.get(key)

    def put(self, key: BrokerKey, live: LiveBroker) -> bool:
        """Enters a broker, and returns whether it is new or has other rules of addresses."""
        before = self._live.get(key)
        if before is not None and before.channel is not live.channel:
            self._leave(key, before.channel)
        self._on.setdefault(live.channel, {})[key] = None
        self._live[key] = live
        if before is not None and before.advertised == live.advertised:
            return False
        self._advertise(key, live.advertised)
        return True

    def pop(self, key: BrokerKey) -> LiveBroker | None:
        """Removes a broker and returns it; None if it is not known."""
        live = self._live.pop(key, None)
        if live is not None:
            self._leave(key, live.channel)
            self._advertise(key, Advertised())
        return live

    def on(self, channel: object) -> list[BrokerKey]:
        """Returns the brokers that registered last on a connection."""
        return list(self._on.get(channel, ()))

    def advertised(self) -> list[Advertised]:
        """Returns the rules of all brokers that have some."""
        return list(self._advertised.values())

    def address_for(self, key: BrokerKey, caller: IPAddress | None) -> str:
        """Returns the address at which a caller reaches a broker."""
        rules = self._advertised.get(key)
        return (rules and rules.address_for(caller)) or key.address

    def _advertise(self, key: BrokerKey, advertised: Advertised) -> None:
        if advertised.rules:
            self._advertised[key] = advertised
        elif self._advertised.pop(key, None) is None:
            return
        self.addresses_generation += 1

    def _leave(self, key: BrokerKey, channel: object) -> None:
        keys = self._on[channel]
        del keys[key]
        if not keys:
            del self._on[channel]
