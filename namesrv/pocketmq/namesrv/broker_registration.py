"""What a broker says of itself when it registers, and what it is told."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from pocketmq.protocol.bodies.registrations import RegisteredTopic
from pocketmq.protocol.bodies.topics import DataVersion, TopicQueueMapping
from pocketmq.protocol.names.advertise import Advertised


class BrokerKey(NamedTuple):
    """The identity of one broker process: its cluster and the address that it registered."""

    cluster: str
    address: str


class BrokerRegistration(msgspec.Struct, kw_only=True):
    """The content of one broker's registration.

    Attributes:
        acting_master: None for brokers before 5.0, which know nothing of acting masters.
        timeout_ms: after so much silence the broker counts as gone.
        topics: all of the broker, or those that changed.
        removed: topics that are to be removed from the broker name.
        channel: the connection that it registered on.
        is_partial: whether the broker says that it has more topics than these.
        digest: of the body that the topics come from; empty if nobody will compare it.
    """

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    timeout_ms: int
    ha_address: str = ""
    zone: str | None = None
    acting_master: bool | None = None
    version: DataVersion = DataVersion()
    topics: list[RegisteredTopic] = msgspec.field(default_factory=list)
    mappings: dict[str, TopicQueueMapping] = msgspec.field(default_factory=dict)
    removed: list[str] = msgspec.field(default_factory=list)
    advertised: Advertised = Advertised()
    channel: object = None
    is_partial: bool = False
    digest: bytes = b""

    @property
    def key(self) -> BrokerKey:
        """The identity of the broker."""
        return BrokerKey(self.cluster, self.address)


class MasterAddresses(msgspec.Struct, frozen=True):
    """The master's addresses in the answer to a slave's registration; empty for a master."""

    master: str | None = None
    ha: str | None = None
