"""What the brokers of all clusters have registered (`namesrv/routeinfo/RouteInfoManager`).

Pure: no sockets, no clock. Time comes as an argument, connections are opaque values that are
compared and handed back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from pocketmq.namesrv.broker_registration import (
    BrokerKey,
    BrokerRegistration,
    MasterAddresses,
)
from pocketmq.namesrv.live_brokers import LiveBroker, LiveBrokers, TakenTopics, TopicsRole
from pocketmq.namesrv.topic_queue_table import QueueCounts, TopicQueueTable
from pocketmq.protocol.bodies.routes import (
    BrokerData,
    ClusterInfo,
    MemberGroup,
    QueueData,
    TopicRoute,
)
from pocketmq.protocol.bodies.topics import DataVersion
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import ResponseError
from pocketmq.protocol.flags import PERM_READ, PERM_WRITE

BROKERS_MAX = 10_000
"""Registered addresses of one name server; each takes about a kilobyte."""

MASTER_ID = 0


class RouteTable:
    """Brokers by name and by cluster, and the topics that they hold.

    Attributes:
        topics: the topics with their queues.
        live: the broker processes.
        brokers_generation: grows with every change of a broker.
    """

    def __init__(self) -> None:
        self.topics = TopicQueueTable()
        self._brokers: dict[str, BrokerData] = {}
        self._clusters: dict[str, dict[str, None]] = {}  # keys only: a set that keeps its order
        self.live = LiveBrokers()
        self.brokers_generation = 0

    @property
    def generation(self) -> tuple[int, int]:
        """A value that changes whenever a route may look different."""
        return self.brokers_generation, self.topics.generation

    # -- brokers come -------------------------------------------------------------------------

    def register(
        self,
        broker: BrokerRegistration,
        now_ms: int,
        *,
        drops_other_topics: bool = False,
        is_same_again: bool = False,
    ) -> MasterAddresses:
        """Enters a registration.

        An address has one id: its registration under another id is removed. An id has one
        address: the one that registers now, unless the other one has a higher state version; then
        the registration is ignored.

        Args:
            broker: the registration.
            now_ms: the time.
            drops_other_topics: remove the topics of the broker name that are not registered now.
            is_same_again: leave its topics as they are, see `is_same_again`.

        Raises:
            ResponseError: a broker that is not known here registers a single topic or says that it
                is not all, as brokers do when some topics change, or there are too many brokers or
                topics.
        """
        held = self._addresses(broker.broker_name).get(broker.broker_id)
        if held and held != broker.address and self._is_outdated(broker, held):
            self.unregister(broker.key, broker.broker_name)
            return MasterAddresses()
        if not is_same_again:
            self._check(broker, is_known=held is not None)
        before = self.live.get(broker.key)
        if before is not None and before.broker_name != broker.broker_name:
            self.unregister(broker.key, before.broker_name)
        known = self._brokers.get(broker.broker_name)
        addresses = {
            i: a for i, a in self._addresses(broker.broker_name).items() if a != broker.address
        }
        addresses[broker.broker_id] = broker.address
        self._put_broker(
            BrokerData(
                cluster=known.cluster if known else broker.cluster,
                broker_name=broker.broker_name,
                broker_addrs=addresses,
                enable_acting_master=bool(broker.acting_master),
                zone_name=broker.zone,
            )
        )
        self._join(broker.cluster, broker.broker_name)
        role = self._role_of(broker, min(addresses))
        if role.counts and not is_same_again:
            self._take_topics(broker, role.perm_mask, held is None, drops_other_topics)
        live = self._put_live(broker, now_ms)
        if broker.digest:
            live.taken = self._taken(broker, role, drops_other_topics)
        return self._master_for(broker)

    def addresses_of(self, broker_name: str) -> dict[int, str]:
        """Returns the addresses of a broker name by id."""
        return dict(self._addresses(broker_name))

    def is_same_again(self, broker: BrokerRegistration, *, drops_other_topics: bool) -> bool:
        """Whether the topics of a registration have been taken before and are still there.

        Then they need not be read: the version that is known stands for them.

        Args:
            broker: the registration; of its topics only the digest counts.
            drops_other_topics: as of `register`.
        """
        live = self.live.get(broker.key)
        addresses = self._addresses(broker.broker_name)
        if live is None or addresses.get(broker.broker_id) != broker.address:
            return False
        role = self._role_of(broker, min(addresses))
        return live.taken == self._taken(broker, role, drops_other_topics)

    def _taken(
        self, broker: BrokerRegistration, role: TopicsRole, drops_others: bool
    ) -> TakenTopics:
        name = broker.broker_name
        return TakenTopics(
            broker.digest, name, broker.broker_id, role, self.topics.membership(name), drops_others
        )

    @staticmethod
    def _role_of(broker: BrokerRegistration, lowest_id: int) -> TopicsRole:
        """Whether the topics of a master count, or of the slave that may act as one."""
        if broker.broker_id == MASTER_ID:
            return TopicsRole(counts=True, perm_mask=~0)
        # An acting master takes no messages.
        return TopicsRole(
            counts=broker.acting_master is not None and broker.broker_id == lowest_id,
            perm_mask=~PERM_WRITE if broker.acting_master else ~0,
        )

    def _addresses(self, broker_name: str) -> dict[int, str]:
        known = self._brokers.get(broker_name)
        return known.broker_addrs if known else {}

    def _is_outdated(self, broker: BrokerRegistration, other_address: str) -> bool:
        other = self.live.get(BrokerKey(broker.cluster, other_address))
        return other is not None and other.version.state_version > broker.version.state_version

    def _check(self, broker: BrokerRegistration, *, is_known: bool) -> None:
        if not is_known and (broker.is_partial or len(broker.topics) == 1):
            raise ResponseError(
                ResponseCode.SYSTEM_ERROR,
                f"register broker failed: {broker.broker_name} with id {broker.broker_id} is not "
                f"known here and registers {len(broker.topics)} of its topics; it has to register "
                f"all of them first",
            )
        if broker.key not in self.live and len(self.live) >= BROKERS_MAX:
            raise ResponseError(
                ResponseCode.SYSTEM_ERROR,
                f"register broker failed: {BROKERS_MAX} brokers are registered, which is the limit",
            )
        self.topics.check_room([topic.topic_name for topic in broker.topics])

    def _take_topics(
        self, broker: BrokerRegistration, perm_mask: int, is_first: bool, drops_others: bool
    ) -> None:
        name, topics = broker.broker_name, self.topics
        if drops_others and not broker.mappings:
            topics.keep_only(name, {topic.topic_name for topic in broker.topics})
        is_changed = is_first or self.is_changed(broker.key, broker.version)
        topics.put_all(
            name,
            (
                (
                    topic.topic_name,
                    QueueCounts(
                        topic.read_queue_nums,
                        topic.write_queue_nums,
                        topic.perm & perm_mask,
                        topic.topic_sys_flag,
                    ),
                )
                for topic in broker.topics
                if is_changed or not topics.holds(topic.topic_name, name)
            ),
        )
        for topic_name in broker.removed:
            topics.remove_topic(topic_name, [name])
        if is_changed:
            for topic_name, mapping in broker.mappings.items():
                topics.put_mapping(topic_name, mapping)

    def _put_live(self, broker: BrokerRegistration, now_ms: int) -> LiveBroker:
        live = LiveBroker(
            broker.broker_name,
            now_ms,
            broker.timeout_ms,
            broker.version,
            broker.ha_address,
            broker.advertised,
            broker.channel,
        )
        if self.live.put(broker.key, live):
            self.brokers_generation += 1
        return live

    def _master_for(self, broker: BrokerRegistration) -> MasterAddresses:
        if broker.broker_id == MASTER_ID:
            return MasterAddresses()
        address = self._brokers[broker.broker_name].broker_addrs.get(MASTER_ID)
        live = self.live.get(BrokerKey(broker.cluster, address)) if address else None
        return MasterAddresses() if live is None else MasterAddresses(address, live.ha_address)

    def _put_broker(self, data: BrokerData) -> None:
        if self._brokers.get(data.broker_name) != data:
            self._brokers[data.broker_name] = data
            self.brokers_generation += 1

    def _join(self, cluster: str, broker_name: str) -> None:
        names = self._clusters.setdefault(cluster, {})
        if broker_name not in names:
            names[broker_name] = None
            self.brokers_generation += 1

    # -- brokers live -------------------------------------------------------------------------

    def touch(self, key: BrokerKey, now_ms: int) -> None:
        """Notes that a broker is alive; does nothing for an unknown broker."""
        live = self.live.get(key)
        if live is not None:
            live.updated_ms = now_ms

    def version_of(self, key: BrokerKey) -> DataVersion | None:
        """Returns the version of the topics that a broker registered last."""
        live = self.live.get(key)
        return None if live is None else live.version

    def is_changed(self, key: BrokerKey, version: DataVersion) -> bool:
        """Whether a broker is unknown, or its topics are newer than those it registered."""
        return self.version_of(key) != version

    def name_at(self, key: BrokerKey) -> str | None:
        """Returns the name under which a broker registered last."""
        live = self.live.get(key)
        return None if live is None else live.broker_name

    def knows(self, broker_name: str) -> bool:
        """Whether a broker of a name is registered."""
        return broker_name in self._brokers

    @property
    def clusters(self) -> list[str]:
        """The names of the clusters that have brokers."""
        return list(self._clusters)

    # -- brokers go ---------------------------------------------------------------------------

    def unregister(self, key: BrokerKey, broker_name: str) -> bool:
        """Removes a broker; with the last address of a broker name its queues go, too.

        Args:
            key: the broker.
            broker_name: its name, which counts only if the broker itself is not known.

        Returns:
            Whether it was registered.
        """
        live = self.live.pop(key)
        if live is not None:
            broker_name = live.broker_name
            self.brokers_generation += 1
        known = self._brokers.get(broker_name)
        if known is None:
            return live is not None
        left = {i: a for i, a in known.broker_addrs.items() if a != key.address}
        if left == known.broker_addrs:
            return live is not None
        if not left:
            self._remove_name(broker_name)
            return True
        self._put_broker(_with_addresses(known, left))
        if known.enable_acting_master and MASTER_ID not in left:
            self.topics.change_perm(broker_name, lambda perm: perm & ~PERM_WRITE)
        return True

    def connection_closed(self, channel: object) -> list[BrokerKey]:
        """Removes the brokers that registered last on a connection, and returns them."""
        gone = self.live.on(channel)
        for key in gone:
            self.unregister(key, "")
        return gone

    def expire(self, now_ms: int) -> Iterator[tuple[BrokerKey, object]]:
        """Removes brokers that were silent for too long, and yields each with its channel.

        Others may change the table between two of them.
        """
        for key in list(self.live):
            live = self.live.get(key)
            if live is not None and live.updated_ms + live.timeout_ms < now_ms:
                self.unregister(key, live.broker_name)
                yield key, live.channel

    def _remove_name(self, broker_name: str) -> None:
        del self._brokers[broker_name]
        for cluster, names in list(self._clusters.items()):
            names.pop(broker_name, None)
            if not names:
                del self._clusters[cluster]
        self.topics.remove_broker(broker_name)
        self.brokers_generation += 1

    # -- topics, by hand ----------------------------------------------------------------------

    def register_topic(self, topic: str, queues: Iterable[QueueData]) -> None:
        """Adds queues to a topic.

        RocketMQ drops queues of unknown brokers without a word; here that is an error.

        Raises:
            ResponseError: a broker name is unknown, or there are too many topics.
        """
        queues = list(queues)
        for data in queues:
            if data.broker_name not in self._brokers:
                raise ResponseError(
                    ResponseCode.SYSTEM_ERROR,
                    f"the topic {topic} was not registered: the broker {data.broker_name} is not "
                    f"known here; it has to register first",
                )
        self.topics.check_room([topic])
        for data in queues:
            counts = QueueCounts(
                data.read_queue_nums, data.write_queue_nums, data.perm, data.topic_sys_flag
            )
            self.topics.put(topic, data.broker_name, counts)

    def delete_topic(self, topic: str, cluster: str | None = None) -> None:
        """Removes a topic, or its queues on one cluster's brokers."""
        self.topics.remove_topic(topic, self._clusters.get(cluster, {}) if cluster else None)

    def wipe_write_perm(self, broker_name: str) -> int:
        """Takes the write permission from a broker's topics, and returns how many they are.

        Like `add_write_perm`, this lasts until the broker registers a change.
        """
        return self.topics.change_perm(broker_name, lambda perm: perm & ~PERM_WRITE)

    def add_write_perm(self, broker_name: str) -> int:
        """Makes a broker's topics readable and writable, and returns how many they are."""
        return self.topics.change_perm(broker_name, lambda _: PERM_READ | PERM_WRITE)

    # -- questions ----------------------------------------------------------------------------

    def route(self, topic: str) -> TopicRoute | None:
        """Returns where a topic's queues are; None if no known broker holds any."""
        queues = self.topics.queues(topic)
        brokers = [self._brokers[q.broker_name] for q in queues if q.broker_name in self._brokers]
        if not brokers:
            return None
        return TopicRoute(
            queue_datas=queues,
            broker_datas=brokers,
            topic_queue_mapping_by_broker=self.topics.mappings(topic),
        )

    def cluster_info(self) -> ClusterInfo:
        """Returns all brokers, and the broker names of each cluster."""
        return ClusterInfo(
            broker_addr_table=dict(self._brokers),
            cluster_addr_table={cluster: list(names) for cluster, names in self._clusters.items()},
        )

    def broker(self, name: str) -> BrokerData | None:
        """Returns what is known of a broker name; a change makes another object."""
        return self._brokers.get(name)

    def member_group(self, cluster: str, broker_name: str) -> MemberGroup:
        """Returns the addresses of one broker name; none if it is unknown."""
        return MemberGroup(
            cluster=cluster,
            broker_name=broker_name,
            broker_addrs=dict(self._addresses(broker_name)),
        )

    def topics_of_cluster(self, cluster: str) -> list[str]:
        """Returns the topics on the brokers of a cluster."""
        return self.topics.topics_of(self._clusters.get(cluster, ()))

    def system_topics(self) -> list[str]:
        """Returns the names of clusters and brokers, which are topics too."""
        names = [n for cluster, brokers in self._clusters.items() for n in (cluster, *brokers)]
        return list(dict.fromkeys(names))

    def any_broker(self) -> BrokerKey | None:
        """Returns the address of the first known broker, which can be asked for more."""
        for data in self._brokers.values():
            return BrokerKey(data.cluster or "", data.broker_addrs[min(data.broker_addrs)])
        return None


def _with_addresses(data: BrokerData, addresses: dict[int, str]) -> BrokerData:
    return msgspec.structs.replace(data, broker_addrs=addresses)
