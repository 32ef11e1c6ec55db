"""The simple consumer: it receives messages, and acknowledges each by itself."""

from __future__ import annotations

import logging
from random import Random
from typing import Any

from pocketmq.client.errors import ClosedError
from pocketmq.client.hooks import COMMON, ConsumeHooks
from pocketmq.client.instance.instance import ClientInstance, InstanceLease, NamesrvList
from pocketmq.client.lifecycle import Lifecycle, Startable
from pocketmq.client.listening.hooked_listener import call_hooks_for_pulled
from pocketmq.client.message_selector import Expression, subscription_of
from pocketmq.client.popping.popper import Popper, all_queues, init_mode_of
from pocketmq.client.popping.watches import Watches
from pocketmq.client.settings import InstanceSettings, SimpleConsumerSettings, take_settings
from pocketmq.protocol.bodies.clients import CONSUME_POP, SUBSCRIBE_ALL, ConsumerData, Subscription
from pocketmq.protocol.errors import OperatingError, UsageError
from pocketmq.protocol.messages.message import MessageQueue, ReceivedMessage
from pocketmq.protocol.names.names import check_group, check_topic
from pocketmq.protocol.requests.popping import POPPED_MAX
from pocketmq.runtime.clock import Clock

log = logging.getLogger("pocketmq.client")

ROUTE_PAUSE_S = 1.0
"""How long a receive waits before it looks again for topics that do not exist yet."""


class SimpleConsumer(Startable):
    """Receives messages, and acknowledges each by itself (`SimpleConsumer` of RocketMQ 5)::

        async with SimpleConsumer("billing", "127.0.0.1:9876") as consumer:
            consumer.subscribe("Orders", "new || changed")
            for message in await consumer.receive(max_messages=16, invisible_ms=30_000):
                ...
                await consumer.ack(message)

    What is not acknowledged while it is invisible comes again, to any member of the group. No
    member has queues of its own, so that a group may have more members than there are queues, and
    a member that is slow or gone holds up nobody. Over remoting, on RocketMQ's brokers since 5.0.

    Args:
        group: the consumer group.
        namesrv: the name servers, as ``"a:9876;b:9876"`` or a list; by default NAMESRV_ADDR.
        hooks: functions to call for the messages of each receive, which count as handled.
        instance: a shared instance instead of one of the consumer's own.
        clock: the source of time.
        random: the source of randomness.
        settings: fields of `SimpleConsumerSettings` and, without `instance`, `InstanceSettings`.

    Raises:
        IllegalNameError, ConfigError.
    """

    def __init__(
        self,
        group: str,
        namesrv: NamesrvList = None,
        *,
        hooks: ConsumeHooks | None = None,
        instance: ClientInstance | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
        **settings: Any,
    ) -> None:
        check_group(group)
        self.group = group
        self.settings, rest = take_settings(SimpleConsumerSettings, settings, InstanceSettings)
        self._init_mode = init_mode_of(self.settings.consume_from_where)
        self._lease = InstanceLease(instance, namesrv, clock, random, rest)
        self._lifecycle = Lifecycle()
        self._hooks = (hooks or ConsumeHooks()) + COMMON.receiving
        self._subscriptions: dict[str, Subscription] = {}
        self._is_announced = False
        self._is_running = False
        self._turn = 0

    @property
    def instance(self) -> ClientInstance:
        """The instance that the consumer owns or shares."""
        return self._lease.instance

    # -- life ---------------------------------------------------------------------------------

    async def start(self) -> None:
        """Makes the consumer usable. Idempotent.

        Raises:
            UsageError: the shared instance has a consumer of this group already.
        """
        if self._is_running:
            return
        await self._lease.acquire()
        instance = self.instance
        instance.groups.add_consumer(self)
        self._popper = Popper(
            self.group,
            instance,
            self.settings.pop_timeout_ms,
            self._hooks,
            init_mode=self._init_mode,
            is_ordered=self.settings.orderly,
        )
        self._watches = Watches(self._popper, instance.clock)
        self._is_running = True

    async def close(self) -> None:
        """Unregisters the consumer from its brokers and closes it. Idempotent.

        Messages that it has received and not acknowledged come again when they are visible.
        """
        await self._lifecycle.close(self._close)

    async def _close(self) -> None:
        if not self._is_running:
            return
        self._is_running = False
        await self._watches.close()
        instance = self.instance
        instance.groups.remove_consumer(self.group)
        await instance.heartbeats.unregister(consumer_group=self.group)
        for topic in self._subscriptions:
            instance.routes.unsubscribe(topic)
        await self._lease.release()

    # -- as its instance sees it --------------------------------------------------------------

    @property
    def is_waiting(self) -> bool:
        """Whether the consumer has no subscription yet."""
        return not self._subscriptions

    def describe(self) -> ConsumerData:
        """Returns the consumer's part of a heartbeat."""
        return ConsumerData(
            group_name=self.group,
            consume_type=CONSUME_POP,
            consume_from_where=self.settings.consume_from_where,
            subscription_data_set=[s for _, s in sorted(self._subscriptions.items())],
        )

    def group_changed(self) -> None:
        """Nothing changes when members come or go: nobody has queues."""

    # -- subscriptions ------------------------------------------------------------------------

    def subscribe(self, topic: str, expression: Expression = SUBSCRIBE_ALL) -> None:
        """Subscribes to a topic, before or after the start.

        Args:
            topic: its name; it need not exist yet.
            expression: tags, such as ``"TagA || TagB"``, or a `MessageSelector`.

        Raises:
            IllegalNameError: the name is illegal.
        """
        check_topic(topic)
        version_ms = self.instance.next_version_ms()
        self._subscriptions[topic] = subscription_of(topic, expression, version_ms)
        self._is_announced = False

    def unsubscribe(self, topic: str) -> None:
        """Ends the subscription to a topic."""
        if self._subscriptions.pop(topic, None) is not None:
            self._is_announced = False
            if self._is_running:
                self.instance.routes.unsubscribe(topic)

    # -- messages -----------------------------------------------------------------------------

    async def receive(
        self,
        max_messages: int = POPPED_MAX,
        invisible_ms: int | None = None,
        *,
        await_ms: int | None = None,
    ) -> list[ReceivedMessage]:
        """Receives messages of the subscribed topics, in turn of topics and brokers.

        Args:
            max_messages: 1 to 32.
            invisible_ms: for how long nobody else gets them; by default as the settings say.
            await_ms: how long to wait when there are none; by default as the settings say.

        Returns:
            The messages, which have one topic; none if there were none for so long.

        Raises:
            UsageError: there is no subscription, or `max_messages` is out of its bounds.
            RouteError, NoNameServerError, ResponseError, ContentError, ConnectError,
            ConnectionClosedError, CallTimeoutError, TooMuchRequestError: as the last of the
            brokers said, if none could be asked.
        """
        self._check_running()
        if not 1 <= max_messages <= POPPED_MAX:
            raise UsageError(f"max_messages={max_messages} is not within 1 and {POPPED_MAX}")
        if not self._subscriptions:
            raise UsageError("there is nothing to receive: call subscribe(topic) before")
        clock, settings = self.instance.clock, self.settings
        invisible_ms = settings.invisible_ms if invisible_ms is None else invisible_ms
        await_ms = settings.await_ms if await_ms is None else await_ms
        end_s = clock.monotonic() + await_ms / 1000
        while True:
            places = await self._places()
            left_ms = max(0, round((end_s - clock.monotonic()) * 1000))
            if len(places) == 1:
                return await self._pop(places[0], max_messages, invisible_ms, left_ms)
            found = await self._pop_first(places, max_messages, invisible_ms)
            if found or not left_ms:
                return found
            if places:
                wanted = [(place, self._subscriptions[place.topic]) for place in places]
                await self._watches.wait(wanted, left_ms)
            else:
                await clock.sleep(min(ROUTE_PAUSE_S, left_ms / 1000))

    async def _places(self) -> list[MessageQueue]:
        """What there is to pop from, beginning with the one whose turn it is."""
        instance = self.instance
        places: list[MessageQueue] = []
        for topic in sorted(self._subscriptions):
            queues = await instance.routes.subscribe(topic)
            names = sorted({queue.broker_name for queue in queues})
            places += [all_queues(topic, name) for name in names]
        if places and not self._is_announced:
            self._is_announced = True
            await instance.heartbeats.send()
        self._turn += 1
        start = self._turn % len(places) if places else 0
        return places[start:] + places[:start]

    async def _pop_first(
        self, places: list[MessageQueue], max_messages: int, invisible_ms: int
    ) -> list[ReceivedMessage]:
        """Pops from the first place that has messages, and waits for none.

        Raises:
            OperatingError: no place could be asked; that of the last one.
        """
        failures: list[OperatingError] = []
        for place in places:
            if self._watches.is_empty(place):
                continue
            try:
                found = await self._pop(place, max_messages, invisible_ms, 0)
            except OperatingError as e:
                log.info("group %s: nothing is received from %s: %s", self.group, place, e)
                failures.append(e)
            else:
                if found:
                    return found
        if failures and len(failures) == len(places):
            raise failures[-1]
        return []

    async def _pop(
        self, place: MessageQueue, max_messages: int, invisible_ms: int, poll_ms: int
    ) -> list[ReceivedMessage]:
        messages = await self._popper.pop(
            place,
            self._subscriptions[place.topic],
            max_messages=max_messages,
            invisible_ms=invisible_ms,
            poll_ms=poll_ms,
        )
        call_hooks_for_pulled(self._hooks, self.group, messages, self.instance.namespace.name)
        return messages

    async def ack(self, *messages: ReceivedMessage) -> None:
        """Says that messages are handled: they do not come again.

        An acknowledgement that comes too late, or again, is no error, as in RocketMQ.

        Args:
            messages: as `receive` returned them.

        Raises:
            UsageError: a message was not received by a simple consumer.
            BrokerDownError, ResponseError, ConnectError, ConnectionClosedError, CallTimeoutError,
            TooMuchRequestError.
        """
        self._check_running()
        await self._popper.acknowledge(messages)

    async def change_invisible_duration(self, message: ReceivedMessage, invisible_ms: int) -> None:
        """Sets anew for how long nobody else gets a message; 0 gives it back.

        Args:
            message: as `receive` returned it; it is acknowledged by its new handle then.
            invisible_ms: from now on.

        Raises:
            What `ack` raises.
        """
        self._check_running()
        await self._popper.change_invisible_time(message, invisible_ms)

    def _check_running(self) -> None:
        if not self._is_running:
            raise ClosedError(f"simple consumer of group {self.group}")
