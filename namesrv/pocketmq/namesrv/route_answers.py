"""Routes as a caller may see them, encoded, and cached until something changes.

Between the table and the caller stand, in this order: the acting master, the zone, the addresses
for this caller, and the order-topic configuration.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from pocketmq.namesrv.broker_registration import BrokerKey
from pocketmq.namesrv.config import NamesrvConfig
from pocketmq.namesrv.kv_config import ORDER_TOPIC_NAMESPACE, KVConfig
from pocketmq.namesrv.route_parts import AddressClass, RouteParts
from pocketmq.namesrv.route_table import MASTER_ID, RouteTable
from pocketmq.protocol.bodies.routes import BrokerData, ClusterInfo, MemberGroup, TopicRoute
from pocketmq.protocol.flags import is_writable
from pocketmq.protocol.names.advertise import IPAddress

KEPT_SIZE_MAX = 16 * 1024 * 1024
"""Bytes of encoded routes in the cache; when there would be more, it is emptied."""

KEPT_ENTRY_SIZE = 300
"""Bytes that an entry of the cache counts besides the route itself, which others may share."""

CALLERS_KEPT_MAX = 10_000
"""Callers whose class is cached; when there would be more, all are forgotten."""

MEMBER_TOPIC_PREFIX = "rmq_sys_SYNC_BROKER_MEMBER_"
"""Topics by which a broker's members find each other: acting masters are not shown in them."""

_Question = tuple[str, bool, AddressClass]
_State = tuple[int, int, int, bool]


class _Kept(NamedTuple):
    """An answer, and the state of what it depends on."""

    state: _State
    answer: bytes


class RouteAnswers:
    """Encodes answers to questions for routes and addresses.

    An answer is kept until its topic or any broker changes. What it says of a broker is kept until
    that broker changes, because after each change many answers are encoded anew.
    """

    def __init__(self, routes: RouteTable, kv: KVConfig, config: NamesrvConfig) -> None:
        self._routes, self._kv, self._config = routes, kv, config
        self._kept: dict[_Question, _Kept] = {}
        self._shared: dict[bytes, bytes] = {}  # topics on the same brokers have equal routes
        self._kept_size = 0
        self._parts = RouteParts(routes)
        self._classes: dict[IPAddress | None, AddressClass] = {}
        self._addresses_generation = 0

    def topic(
        self, topic: str, caller: IPAddress | None, *, quote_keys: bool, zone: str = ""
    ) -> bytes | None:
        """Returns a topic's encoded route; None if there is none.

        Args:
            topic: its name.
            caller: who asks.
            quote_keys: write standard JSON.
            zone: show only this zone's brokers and those without a master; empty for all.
        """
        seen = self._class_of(caller)
        if zone:
            route = self._route(topic, caller, zone)
            return None if route is None else route.encode(quote_keys=quote_keys)
        question, state = (topic, quote_keys, seen), self._state_of(topic)
        kept = self._kept.get(question)
        if kept is not None and kept.state == state:
            return kept.answer
        answer = self._encoded(topic, caller, seen, quote_keys=quote_keys)
        if answer is not None:
            self._keep(question, _Kept(state, answer))
        return answer

    def _encoded(
        self, topic: str, caller: IPAddress | None, seen: AddressClass, *, quote_keys: bool
    ) -> bytes | None:
        config, topics = self._config, self._routes.topics
        is_plain = not (config.support_acting_master or config.order_message_enable)
        if is_plain and topics.mappings(topic) is None:
            return self._parts.route(topic, lambda data: self._readdressed(data, caller), seen,
                                     quote_keys=quote_keys)  # fmt: skip
        route = self._route(topic, caller, "")
        return None if route is None else route.encode(quote_keys=quote_keys)

    def cluster_info(self, caller: IPAddress | None) -> ClusterInfo:
        """Returns all brokers with the addresses for a caller."""
        info = self._routes.cluster_info()
        info.broker_addr_table = {
            name: self._readdressed(data, caller) for name, data in info.broker_addr_table.items()
        }
        return info

    def member_group(self, cluster: str, broker_name: str, caller: IPAddress | None) -> MemberGroup:
        """Returns the addresses of one broker name for a caller."""
        group = self._routes.member_group(cluster, broker_name)
        group.broker_addrs = self._addresses(cluster, group.broker_addrs, caller)
        return group

    def _route(self, topic: str, caller: IPAddress | None, zone: str) -> TopicRoute | None:
        route = self._routes.route(topic)
        if route is None:
            return None
        if self._config.support_acting_master and not topic.startswith(MEMBER_TOPIC_PREFIX):
            show_acting_masters(route)
        if zone:
            keep_zone(route, zone)
        route.broker_datas = [self._readdressed(data, caller) for data in route.broker_datas]
        if self._config.order_message_enable:
            route.order_topic_conf = self._kv.get(ORDER_TOPIC_NAMESPACE, topic)
        return route

    def _readdressed(self, data: BrokerData, caller: IPAddress | None) -> BrokerData:
        addresses = self._addresses(data.cluster or "", data.broker_addrs, caller)
        return msgspec.structs.replace(data, broker_addrs=addresses)

    def _addresses(
        self, cluster: str, addresses: dict[int, str], caller: IPAddress | None
    ) -> dict[int, str]:
        address_for = self._routes.live.address_for
        return {i: address_for(BrokerKey(cluster, a), caller) for i, a in addresses.items()}

    # -- what is kept -------------------------------------------------------------------------

    def _state_of(self, topic: str) -> _State:
        """All that a topic's route depends on."""
        config, routes = self._config, self._routes
        return (
            routes.topics.generation_of(topic),
            routes.brokers_generation,
            self._kv.generation if config.order_message_enable else -1,
            config.support_acting_master,
        )

    def _keep(self, question: _Question, kept: _Kept) -> None:
        answer = self._shared.get(kept.answer)
        size = KEPT_ENTRY_SIZE + (len(kept.answer) if answer is None else 0)
        if self._kept_size + size > KEPT_SIZE_MAX:
            self._forget()
            answer = None
            size = KEPT_ENTRY_SIZE + len(kept.answer)
        if answer is None:
            answer = self._shared[kept.answer] = kept.answer
        self._kept[question] = kept._replace(answer=answer)
        self._kept_size += size

    def _forget(self) -> None:
        self._kept.clear()
        self._shared.clear()
        self._kept_size = 0

    def _class_of(self, caller: IPAddress | None) -> AddressClass:
        """Returns the addresses that all rules give a caller; equal callers share cached routes."""
        generation = self._routes.live.addresses_generation
        if self._addresses_generation != generation:
            self._addresses_generation = generation
            self._classes.clear()
        known = self._classes.get(caller)
        if known is None:
            if len(self._classes) >= CALLERS_KEPT_MAX:
                self._classes.clear()
            known = tuple(rules.address_for(caller) for rules in self._routes.live.advertised())
            self._classes[caller] = known
        return known


def show_acting_masters(route: TopicRoute) -> None:
    """Shows the lowest id as the master of brokers that lost theirs and allow it.

    RocketMQ's rule (`RouteInfoManager.pickupTopicRouteData`): only where the queue data are not
    writable, which they are made when the master goes.
    """
    writable = {queues.broker_name for queues in route.queue_datas if is_writable(queues.perm)}
    route.broker_datas = [
        data
        if MASTER_ID in data.broker_addrs
        or not data.enable_acting_master
        or data.broker_name in writable
        else _with_acting_master(data)
        for data in route.broker_datas
    ]


def _with_acting_master(data: BrokerData) -> BrokerData:
    lowest = min(data.broker_addrs)
    addresses = {MASTER_ID if i == lowest else i: a for i, a in data.broker_addrs.items()}
    return msgspec.structs.replace(data, broker_addrs=addresses)


def keep_zone(route: TopicRoute, zone: str) -> None:
    """Removes the brokers of other zones that have a master (`ZoneRouteRPCHook`)."""
    removed = {
        data.broker_name
        for data in route.broker_datas
        if MASTER_ID in data.broker_addrs and (data.zone_name or "").lower() != zone.lower()
    }
    route.broker_datas = [d for d in route.broker_datas if d.broker_name not in removed]
    route.queue_datas = [q for q in route.queue_datas if q.broker_name not in removed]
