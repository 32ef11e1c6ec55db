"""The groups of an instance, and the heartbeats by which brokers know them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import Protocol

import msgspec

from pocketmq.client.instance.routes import RouteCache
from pocketmq.client.settings import InstanceSettings
from pocketmq.protocol.bodies.clients import ConsumerData, Heartbeat, ProducerData
from pocketmq.protocol.bodies.groups import ConsumeDirectlyResult, RunningInfo
from pocketmq.protocol.bodies.topics import QueueKey
from pocketmq.protocol.errors import NoPermissionError, OperatingError, UsageError
from pocketmq.protocol.messages.message import MessageQueue, ReceivedMessage
from pocketmq.protocol.names.names import check_group
from pocketmq.protocol.names.namespaces import Namespace
from pocketmq.protocol.requests.clients import HeartbeatRequest, UnregisterClientRequest
from pocketmq.protocol.requests.transactions import CheckTransactionStateRequest
from pocketmq.transport.connection import Connection
from pocketmq.transport.errors import CallTimeoutError
from pocketmq.transport.pool import ConnectionPool

log = logging.getLogger("pocketmq.client")


class ConsumerMember(Protocol):
    """A consumer as its instance sees it."""

    @property
    def group(self) -> str:
        """The consumer's group."""

    @property
    def is_waiting(self) -> bool:
        """Whether the consumer has no subscription or assignment yet."""

    def describe(self) -> ConsumerData:
        """Returns the consumer's part of a heartbeat."""

    def group_changed(self) -> None:
        """Follows a broker's notice that members came or went."""


class InspectedConsumer(Protocol):
    """A consumer that can be inspected and moved by brokers."""

    def running_info(self) -> RunningInfo:
        """Returns the consumer's settings, subscriptions, queues and rates."""

    def offsets_of(self, topic: str) -> dict[QueueKey, int]:
        """Returns the consumer's offsets in its queues of a topic."""

    async def handle_directly(self, message: ReceivedMessage) -> ConsumeDirectlyResult:
        """Calls the listener with a message that comes from none of its queues."""

    async def move(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Moves the consumer to other offsets."""


class TransactionChecker(Protocol):
    """A producer that brokers can ask about its transactions."""

    def check_transaction(
        self, header: CheckTransactionStateRequest, message: ReceivedMessage, connection: Connection
    ) -> None:
        """Takes a broker's question about a transaction; the answer is sent later."""


class InstanceGroups:
    """The producer and consumer groups of one instance; each may be there once.

    Attributes:
        producers, consumers: the producer groups; the consumers by group.
        checkers: the producers that brokers may ask about transactions, by group.
        inspections: the consumers that brokers can inspect, by group.

    Args:
        namespace: that brokers find them in.
    """

    def __init__(self, namespace: Namespace | None = None) -> None:
        self._namespace = namespace or Namespace()
        self.producers: set[str] = set()
        self.checkers: dict[str, TransactionChecker] = {}
        self.consumers: dict[str, ConsumerMember] = {}
        self.inspections: dict[str, InspectedConsumer] = {}

    def remove_consumer(self, group: str) -> None:
        """Removes a consumer group."""
        self.consumers.pop(group, None)
        self.inspections.pop(group, None)

    def add_producer(self, group: str) -> None:
        """Adds a producer group.

        Raises:
            UsageError: it is there already.
            IllegalNameError: with its namespace the name is too long.
        """
        self._check_new(group, self.producers)
        self.producers.add(group)

    def add_consumer(self, member: ConsumerMember) -> None:
        """Adds a consumer group.

        Raises:
            UsageError: it is there already: brokers know members by their instance.
        """
        self._check_new(member.group, self.consumers)
        self.consumers[member.group] = member

    def _check_new(self, group: str, known: Iterable[str]) -> None:
        check_group(self._namespace.wrap(group))
        if group in known:
            raise UsageError(
                f"this instance has a member of group {group} already: give the second one an "
                f"instance of its own"
            )

    def heartbeat(self, client_id: str) -> Heartbeat:
        """Returns the body of a heartbeat.

        A consumer that has no subscription yet is left out: as a member it would be given
        queues that it does not read, and seem to subscribe to something else than the others.
        """
        consumers = [c.describe() for _, c in sorted(self.consumers.items()) if not c.is_waiting]
        producers = [ProducerData(group_name=g) for g in sorted(self.producers)]
        if self._namespace:
            wrap = self._namespace.wrap
            for producer in producers:
                producer.group_name = wrap(producer.group_name)
            for consumer in consumers:
                consumer.group_name = wrap(consumer.group_name)
                consumer.subscription_data_set = [
                    msgspec.structs.replace(s, topic=wrap(s.topic))
                    for s in consumer.subscription_data_set
                ]
        return Heartbeat(
            client_id=client_id, producer_data_set=producers, consumer_data_set=consumers
        )


class Heartbeats:
    """Sends the groups of an instance to the brokers of the routes in use.

    Producers are only known to masters, consumers to slaves as well, since they may pull there.

    Attributes:
        refusals: of brokers that did not let the user in with the last heartbeat, by address.
    """

    def __init__(
        self,
        client_id: str,
        groups: InstanceGroups,
        pool: ConnectionPool,
        routes: RouteCache,
        settings: InstanceSettings,
    ) -> None:
        self._client_id, self._groups, self._pool = client_id, groups, pool
        self._routes, self._timeout_ms = routes, settings.call_timeout_ms
        self.refusals: dict[str, NoPermissionError] = {}

    async def send(self) -> list[str]:
        """Sends one heartbeat to each broker; one that is down is logged and left out.

        Returns:
            The addresses that took it.
        """
        groups = self._groups
        heartbeat = groups.heartbeat(self._client_id)
        if not heartbeat.producer_data_set and not heartbeat.consumer_data_set:
            return []
        body = heartbeat.encode()
        addresses = self._routes.addresses(masters_only=not groups.consumers)
        taken = await asyncio.gather(*(self._send_to(address, body) for address in addresses))
        return [address for address, is_taken in zip(addresses, taken, strict=True) if is_taken]

    async def _send_to(self, address: str, body: bytes) -> bool:
        try:
            await self._pool.ask(address, HeartbeatRequest(), self._timeout_ms, body)
            self.refusals.pop(address, None)
            return True
        except NoPermissionError as e:
            known = self.refusals.get(address)
            level = logging.DEBUG if known and known.remark == e.remark else logging.ERROR
            log.log(level, "heartbeat: nothing comes for the groups of this client: %s", e)
            self.refusals[address] = e
        except CallTimeoutError as e:
            # A peer that vanished without a word keeps its connection open for ever.
            self._pool.drop(address, "a heartbeat was not answered")
            log.warning("heartbeat: %s", e)
        except OperatingError as e:
            log.info("heartbeat: %s", e)
        return False

    async def unregister(
        self, *, producer_group: str | None = None, consumer_group: str | None = None
    ) -> None:
        """Unregisters a group from each broker that there is a connection to."""
        request = UnregisterClientRequest(
            client_id=self._client_id, producer_group=producer_group, consumer_group=consumer_group
        )
        known = self._routes.addresses(masters_only=consumer_group is None)
        open_ones = [address for address in known if self._pool.peek(address)]
        await asyncio.gather(*(self._goodbye(address, request) for address in open_ones))

    async def _goodbye(self, address: str, request: UnregisterClientRequest) -> None:
        try:
            await self._pool.ask(address, request, self._timeout_ms)
        except OperatingError as e:
            log.info("unregistering: %s", e)
