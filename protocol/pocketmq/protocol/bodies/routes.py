"""Bodies with the routes and cluster tables of a name server."""

from __future__ import annotations

from msgspec import field

from pocketmq.protocol.bodies import Body
from pocketmq.protocol.bodies.topics import TopicQueueMapping


class QueueData(Body, kw_only=True):
    """A topic's queues on one broker name."""

    broker_name: str
    read_queue_nums: int
    write_queue_nums: int
    perm: int
    topic_sys_flag: int = 0


class BrokerData(Body, kw_only=True):
    """The addresses of one broker name by broker id; 0 is the master."""

    cluster: str | None = None
    broker_name: str
    broker_addrs: dict[int, str] = field(default_factory=dict)
    enable_acting_master: bool = False
    zone_name: str | None = None

    @property
    def master_address(self) -> str | None:
        """The address that takes writes."""
        return self.broker_addrs.get(0)


class TopicRoute(Body, kw_only=True):
    """The queues of a topic and the brokers that hold them (`TopicRouteData`)."""

    queue_datas: list[QueueData] = field(default_factory=list)
    broker_datas: list[BrokerData] = field(default_factory=list)
    filter_server_table: dict[str, list[str]] = field(default_factory=dict)
    order_topic_conf: str | None = None
    topic_queue_mapping_by_broker: dict[str, TopicQueueMapping] | None = None


class ClusterInfo(Body, kw_only=True):
    """All brokers, and the broker names of each cluster."""

    broker_addr_table: dict[str, BrokerData] = field(default_factory=dict)
    cluster_addr_table: dict[str, list[str]] = field(default_factory=dict)


class MemberGroup(Body, kw_only=True):
    """The addresses of one broker name, as 901 answers them."""

    cluster: str
    broker_name: str
    broker_addrs: dict[int, str] = field(default_factory=dict)


class BrokerMemberGroup(Body, kw_only=True):
    """The answer of 901."""

    broker_member_group: MemberGroup


class AdvertiseRule(Body, kw_only=True, forbid_unknown_fields=True):
    """PocketMQ's own: an address that some callers get instead of the registered one.

    Attributes:
        addr: ``host:port``.
        callers: IP addresses or CIDR networks; none means everybody.
    """

    addr: str
    callers: list[str] = field(default_factory=list)
