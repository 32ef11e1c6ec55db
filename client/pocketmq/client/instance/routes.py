"""The routes of the topics in use, kept up to date from the name server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from random import Random

from pocketmq.client.errors import BrokerDownError, NoPermissionRouteError, UnknownTopicError
from pocketmq.client.instance.namesrv_link import NamesrvLink
from pocketmq.client.queue_ring import QueueRing
from pocketmq.client.settings import InstanceSettings
from pocketmq.protocol.bodies.routes import QueueData, TopicRoute
from pocketmq.protocol.errors import OperatingError, TopicMissingError
from pocketmq.protocol.flags import is_readable, is_writable
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.names.names import RETRY_PREFIX
from pocketmq.protocol.requests.nameserver import RouteRequest

log = logging.getLogger("pocketmq.client")

MASTER_ID = 0
UNUSED_POLLS_MAX = 20
"""The polls (10 minutes) without a send after which a topic is forgotten."""
RETRY_QUEUE_NUMS = 1
"""Of a retry topic that no name server knows yet: brokers make them so (`retryQueueNums`)."""


def writable_queues(topic: str, route: TopicRoute) -> list[MessageQueue]:
    """Returns the queues that can be sent to: writable, and with a registered master."""
    masters = {b.broker_name for b in route.broker_datas if MASTER_ID in b.broker_addrs}
    return [
        MessageQueue(topic, data.broker_name, queue_id)
        for data in _by_broker(route)
        if is_writable(data.perm) and data.broker_name in masters
        for queue_id in range(data.write_queue_nums)
    ]


def readable_queues(topic: str, route: TopicRoute) -> list[MessageQueue]:
    """Returns the queues that can be pulled from, sorted by broker and number."""
    return [
        MessageQueue(topic, data.broker_name, queue_id)
        for data in _by_broker(route)
        if is_readable(data.perm)
        for queue_id in range(data.read_queue_nums)
    ]


def _by_broker(route: TopicRoute) -> list[QueueData]:
    return sorted(route.queue_datas, key=lambda data: data.broker_name)


def default_route(route: TopicRoute, queue_nums_max: int) -> TopicRoute:
    """Returns the route for an unknown topic, from that of the topic for automatic creation.

    Args:
        route: of that topic (TBW102).
        queue_nums_max: the client's defaultTopicQueueNums.
    """
    queue_datas = [
        QueueData(
            broker_name=data.broker_name,
            read_queue_nums=min(queue_nums_max, data.read_queue_nums),
            write_queue_nums=min(queue_nums_max, data.read_queue_nums),
            perm=data.perm,
            topic_sys_flag=data.topic_sys_flag,
        )
        for data in route.queue_datas
    ]
    return TopicRoute(queue_datas=queue_datas, broker_datas=route.broker_datas)


class PublishRoute:
    """The part of a topic's route that a producer needs.

    Attributes:
        route: the name server's answer.
        ring: the queues to send to, one after the other; may be empty.
        is_default: the topic is unknown yet, this is the route it will be created on.
        unused_polls: how many polls went by since the last send.
    """

    __slots__ = ("is_default", "ring", "route", "topic", "unused_polls")

    def __init__(self, topic: str, route: TopicRoute, start: int, *, is_default: bool) -> None:
        self.topic, self.route, self.is_default = topic, route, is_default
        self.ring = QueueRing(writable_queues(topic, route), start)
        self.unused_polls = 0

    def check(self) -> None:
        """Checks that there is a queue to send to.

        Raises:
            NoPermissionRouteError, BrokerDownError.
        """
        if self.ring.queues:
            return
        writable = [
            d for d in self.route.queue_datas if is_writable(d.perm) and d.write_queue_nums > 0
        ]
        if self.route.queue_datas and not writable:
            raise NoPermissionRouteError(self.topic, "writable")
        names = ", ".join(sorted({d.broker_name for d in writable})) or "any broker"
        raise BrokerDownError(self.topic, f"the master of {names}")


class RouteCache:
    """Keeps the routes of the topics in use, and the addresses of their brokers.

    Args:
        link: to the name servers.
        settings: of the instance.
        random: chooses the queue of a topic that is used first.
        on_brokers: called when a route names a broker address that was not known.
    """

    def __init__(
        self,
        link: NamesrvLink,
        settings: InstanceSettings,
        random: Random,
        on_brokers: Callable[[], object] = lambda: None,
    ) -> None:
        self._link, self._settings, self._random = link, settings, random
        self._on_brokers = on_brokers
        self._publish: dict[str, PublishRoute] = {}
        self._subscribed: dict[str, TopicRoute | None] = {}
        self._addresses: dict[str, Mapping[int, str]] = {}
        self._clusters: dict[str, str] = {}
        self._sets: set[str] = set()
        self._asking: dict[str, asyncio.Task[TopicRoute]] = {}
        self._askers = 0

    # -- for producers ------------------------------------------------------------------------

    @property
    def namesrv_addresses(self) -> tuple[str, ...]:
        """The name servers that are asked."""
        return self._link.addresses

    def known_publish_route(self, topic: str) -> PublishRoute | None:
        """Returns the route for sending to a topic, if it is known."""
        known = self._publish.get(topic)
        if known is None or not known.ring.queues:
            return None
        known.unused_polls = 0
        return known

    async def publish_route(self, topic: str) -> PublishRoute:
        """Returns the route for sending to a topic; asks the name server if it is not known.

        Raises:
            NoNameServerError, UnknownTopicError, NoPermissionRouteError, BrokerDownError.
        """
        known = self.known_publish_route(topic)
        if known is not None:
            return known
        found = await self._find_to_publish(topic)
        found.check()
        return found

    async def _find_to_publish(self, topic: str) -> PublishRoute:
        try:
            route = await self.ask(topic)
        except TopicMissingError:
            return await self._find_default(topic)
        return self._keep_to_publish(topic, route, is_default=False)

    async def _find_default(self, topic: str) -> PublishRoute:
        """Asks on which brokers a topic will be created that the name server does not know."""
        settings = self._settings
        try:
            model = await self.ask(settings.create_topic_key)
        except TopicMissingError as e:
            asked = self._link.current or ", ".join(self._link.addresses)
            raise UnknownTopicError(topic, asked, is_for_sending=True) from e
        is_retry = topic.startswith(RETRY_PREFIX)
        queues_max = RETRY_QUEUE_NUMS if is_retry else settings.default_topic_queue_nums
        return self._keep_to_publish(topic, default_route(model, queues_max), is_default=True)

    def _keep_to_publish(self, topic: str, route: TopicRoute, *, is_default: bool) -> PublishRoute:
        known = self._publish.get(topic)
        if known is not None and known.route == route and known.is_default == is_default:
            known.unused_polls = 0
            return known
        start = self._random.getrandbits(16) if known is None else known.ring.index
        fresh = self._publish[topic] = PublishRoute(topic, route, start, is_default=is_default)
        return fresh

    # -- for consumers ------------------------------------------------------------------------

    async def subscribe(self, topic: str) -> list[MessageQueue]:
        """Returns a topic's readable queues, and keeps the topic up to date from now on.

        Raises:
            NoNameServerError: it cannot be asked for, and is not known from before.
        """
        route = self._subscribed.get(topic)
        if route is None:
            try:
                route = await self.ask(topic)
            except TopicMissingError:
                route = None
            self._subscribed[topic] = route
        return [] if route is None else readable_queues(topic, route)

    async def queues_to_read(self, topic: str) -> list[MessageQueue]:
        """Returns the readable queues of a topic that must exist.

        Raises:
            NoNameServerError, UnknownTopicError, NoPermissionRouteError.
        """
        queues = await self.subscribe(topic)
        if queues:
            return queues
        if self._subscribed.get(topic) is None:
            del self._subscribed[topic]
            raise UnknownTopicError(topic, self._link.current or "")
        raise NoPermissionRouteError(topic, "readable")

    def unsubscribe(self, topic: str) -> None:
        """Stops keeping a topic up to date."""
        self._subscribed.pop(topic, None)

    # -- addresses ----------------------------------------------------------------------------

    def master_address(self, broker_name: str) -> str | None:
        """Returns the address of a broker's master, if it is known."""
        addresses = self._addresses.get(broker_name)
        return addresses.get(MASTER_ID) if addresses else None

    def is_set(self, broker_name: str) -> bool:
        """Whether a broker name is known to have, or to have had, several members."""
        return broker_name in self._sets

    def sets_of(self, topic: str) -> list[str]:
        """Returns the broker sets that hold queues of a topic in which something was sent."""
        publish = self._publish.get(topic)
        known = [] if publish is None else publish.route.broker_datas
        return [data.broker_name for data in known if data.broker_name in self._sets]

    def sets_led_from(self, address: str) -> list[str]:
        """Returns the broker sets whose leader is at an address, as far as it is known."""
        return [name for name in self._sets if self.master_address(name) == address]

    def cluster_of(self, broker_name: str) -> str | None:
        """Returns the cluster of a broker; None for one that no route in use names."""
        return self._clusters.get(broker_name)

    def read_address(self, broker_name: str, broker_id: int = MASTER_ID) -> tuple[str, int] | None:
        """Returns address and id of the wanted broker, else of another one of the same name.

        A slave that is gone may have been replaced by the next id
        (`client/impl/factory/MQClientInstance`, findBrokerAddressInSubscribe).
        """
        addresses = self._addresses.get(broker_name)
        if not addresses:
            return None
        wanted = [broker_id] if broker_id == MASTER_ID else [broker_id, broker_id + 1]
        for known_id in (*wanted, *sorted(addresses)):
            if known_id in addresses:
                return addresses[known_id], known_id
        return None

    async def locate(self, queue: MessageQueue, broker_id: int = MASTER_ID) -> tuple[str, int]:
        """Returns the `read_address` of a queue, whose topic may not have been used yet.

        Raises:
            NoNameServerError, UnknownTopicError, NoPermissionRouteError, BrokerDownError.
        """
        found = self.read_address(queue.broker_name, broker_id)
        if found is None:
            await self.queues_to_read(queue.topic)
            found = self.read_address(queue.broker_name, broker_id)
        if found is None:
            raise BrokerDownError(queue.topic, f"the broker {queue.broker_name}")
        return found

    async def master_of(self, queue: MessageQueue) -> str:
        """Returns the address of the master of a queue's broker: only it keeps offsets.

        Raises:
            NoNameServerError, UnknownTopicError, NoPermissionRouteError, BrokerDownError.
        """
        address, broker_id = await self.locate(queue)
        if broker_id != MASTER_ID:
            raise BrokerDownError(queue.topic, f"the master of {queue.broker_name}")
        return address

    def addresses(self, *, masters_only: bool) -> list[str]:
        """Returns the addresses of all brokers of the routes in use."""
        found = {
            address
            for by_id in self._addresses.values()
            for broker_id, address in by_id.items()
            if broker_id == MASTER_ID or not masters_only
        }
        return sorted(found)

    def topic_addresses(self, topic: str) -> list[str]:
        """Returns one address for each broker of a subscribed topic, its master's if known."""
        route = self._subscribed.get(topic)
        names = {data.broker_name for data in route.broker_datas} if route is not None else set()
        found = (self.read_address(name) for name in sorted(names))
        return [known[0] for known in found if known is not None]

    # -- keeping up to date -------------------------------------------------------------------

    async def ask(self, topic: str) -> TopicRoute:
        """Asks the name server for a route; simultaneous callers share one request.

        Raises:
            NoNameServerError, TopicMissingError.
        """
        task = self._asking.get(topic)
        if task is None:
            task = self._asking[topic] = asyncio.ensure_future(self._ask(topic))
            task.add_done_callback(lambda task: self._asked(topic, task))
        self._askers += 1
        try:
            return await asyncio.shield(task)
        finally:
            self._askers -= 1

    def _asked(self, topic: str, task: asyncio.Task[TopicRoute]) -> None:
        del self._asking[topic]
        if not task.cancelled():
            task.exception()  # whoever asked may have been cancelled meanwhile

    async def _ask(self, topic: str) -> TopicRoute:
        request = RouteRequest(topic=topic, accept_standard_json_only=True)
        route = TopicRoute.decode((await self._link.ask(request)).body)
        self._learn(route)
        return route

    def _learn(self, route: TopicRoute) -> None:
        is_news = False
        for broker in route.broker_datas:
            known = self._addresses.get(broker.broker_name, {})
            fresh = broker.broker_addrs
            is_news = (
                is_news
                or not set(fresh.values()) <= set(known.values())
                or fresh.get(MASTER_ID) != known.get(MASTER_ID)
            )
            if len(fresh) > 1 or MASTER_ID not in fresh:
                self._sets.add(broker.broker_name)
            self._addresses[broker.broker_name] = broker.broker_addrs
            self._clusters[broker.broker_name] = broker.cluster or ""
        if is_news:
            self._on_brokers()

    async def refresh(self) -> None:
        """Updates all routes in use; a topic that cannot be asked for keeps its last route."""
        for topic in self._in_use():
            try:
                route = await self.ask(topic)
            except TopicMissingError:
                # A name server that was just restarted does not know its topics yet.
                log.debug("the name server does not know topic %s", topic)
                await self._refresh_default(topic)
                continue
            except OperatingError as e:
                log.warning("the routes cannot be refreshed: %s", e)
                return
            if topic in self._publish:
                unused_polls = self._publish[topic].unused_polls
                self._keep_to_publish(topic, route, is_default=False).unused_polls = unused_polls
            if topic in self._subscribed:
                self._subscribed[topic] = route
        self._forget_lost_brokers()

    async def _refresh_default(self, topic: str) -> None:
        """Asks anew on which brokers a topic will be created: another member may lead there."""
        known = self._publish.get(topic)
        if known is None or not known.is_default:
            return
        unused_polls = known.unused_polls
        try:
            (await self._find_default(topic)).unused_polls = unused_polls
        except OperatingError as e:
            log.debug("topic %s keeps its last route: %s", topic, e)

    def _in_use(self) -> Iterable[str]:
        for topic, publish in list(self._publish.items()):
            publish.unused_polls += 1
            if publish.unused_polls > UNUSED_POLLS_MAX:
                del self._publish[topic]
        return sorted({*self._publish, *self._subscribed})

    def _forget_lost_brokers(self) -> None:
        """Forgets brokers that no route in use names.

        Not while somebody asks: the addresses of an answer are known a few iterations of the loop
        before whoever asked takes the route that names them. The next poll comes.
        """
        if self._askers:
            return
        routes = [p.route for p in self._publish.values()]
        routes += [r for r in self._subscribed.values() if r is not None]
        named = {b.broker_name for route in routes for b in route.broker_datas}
        for broker_name in self._addresses.keys() - named:
            del self._addresses[broker_name]
            self._sets.discard(broker_name)
            self._clusters.pop(broker_name, None)
