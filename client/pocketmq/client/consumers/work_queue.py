"""The work of a group: messages of some topics, each settled by itself, for integrations."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import TypeVar

from pocketmq.client.errors import BrokerDownError
from pocketmq.client.hooks import ConsumeHooks
from pocketmq.client.instance.instance import ClientInstance
from pocketmq.client.listening.send_back import SendBack
from pocketmq.client.message_selector import Expression, subscription_of
from pocketmq.client.popping.held_messages import HeldMessages
from pocketmq.client.popping.popper import Popper, all_queues
from pocketmq.client.popping.watches import Watches
from pocketmq.client.settings import SimpleConsumerSettings
from pocketmq.protocol.bodies.clients import (
    CONSUME_FROM_FIRST_OFFSET,
    CONSUME_POP,
    SUBSCRIBE_ALL,
    ConsumerData,
    Subscription,
)
from pocketmq.protocol.errors import OperatingError
from pocketmq.protocol.messages.message import MessageQueue, ReceivedMessage
from pocketmq.protocol.requests.popping import INIT_MIN
from pocketmq.runtime.tasks import Tasks

log = logging.getLogger("pocketmq.client")

T = TypeVar("T")

WAIT_MS = 15_000
"""How long a receive waits for messages before the routes are looked at again."""

FAILED_PAUSE_S = 0.5
"""The pause after a receive for which no broker could be asked."""

ERROR_SIZE_MAX = 200
"""Bytes of the reason that a dead letter keeps."""


class RejectedError(Exception):
    """The reason that a dead letter keeps."""


class WorkQueue:
    """Pops, acknowledges, gives back and gives up messages of one group.

    What is popped stays invisible to others until it is settled: the invisible time is renewed.

    Args:
        group: the consumer group.
        topics: what the group reads, highest priority first.
        instance: the connections and routes; it must be running.
        invisible_ms: for how long others do not get a message when this process was killed.
        expression: which messages of the topics; tags, or a `MessageSelector`.
    """

    def __init__(
        self,
        group: str,
        topics: list[str],
        instance: ClientInstance,
        invisible_ms: int,
        expression: Expression = SUBSCRIBE_ALL,
    ) -> None:
        self.group, self.topics = group, topics
        self._instance, self._invisible_ms = instance, invisible_ms
        self._expression = expression
        self._popper = Popper(
            group,
            instance,
            SimpleConsumerSettings().pop_timeout_ms,
            ConsumeHooks(),
            init_mode=INIT_MIN,
        )
        self._watches = Watches(self._popper, instance.clock)
        self._held = HeldMessages(self._popper, instance.clock, invisible_ms)
        self._send_back = SendBack(group, instance, -1, error_size_max=ERROR_SIZE_MAX)
        self._subscriptions: dict[str, Subscription] = {}
        self._consumers = 0
        self._is_failing = False
        self._tasks = Tasks()
        self._held.start()

    # -- as its instance sees it --------------------------------------------------------------

    @property
    def is_waiting(self) -> bool:
        """Whether nothing is subscribed to yet."""
        return not self._subscriptions

    def describe(self) -> ConsumerData:
        """Returns the group's part of a heartbeat."""
        return ConsumerData(
            group_name=self.group,
            consume_type=CONSUME_POP,
            consume_from_where=CONSUME_FROM_FIRST_OFFSET,
            subscription_data_set=[s for _, s in sorted(self._subscriptions.items())],
        )

    def group_changed(self) -> None:
        """Nothing changes when members come or go: nobody has queues."""

    async def join(self) -> None:
        """Announces the group to the brokers, for as long as somebody consumes."""
        self._consumers += 1
        if self._consumers == 1:
            self._instance.groups.add_consumer(self)
            await self._announce()

    async def _announce(self) -> None:
        for topic in self.topics:
            await self._instance.routes.subscribe(topic)
            self._subscription(topic)
        await self._instance.heartbeats.send()

    async def add_topic(self, topic: str) -> None:
        """Has the queue read one topic more."""
        self.topics.append(topic)
        if self._consumers:
            await self._announce()

    async def leave(self) -> None:
        """Ends what `join` began."""
        if self._consumers == 0:
            return  # closed meanwhile
        self._consumers -= 1
        if self._consumers == 0:
            await self._unregister()

    async def _unregister(self) -> None:
        self._instance.groups.remove_consumer(self.group)
        await self._instance.heartbeats.unregister(consumer_group=self.group)

    async def close(self) -> None:
        """Acknowledges what was handled, and gives back the rest."""
        await self._tasks.close()
        await self._watches.close()
        await self._held.close()
        if self._consumers:
            self._consumers = 0
            await self._unregister()

    # -- messages -----------------------------------------------------------------------------

    async def places(self) -> list[tuple[MessageQueue, Subscription]]:
        """Returns what there is to pop from, highest priority first."""
        found = []
        for topic in self.topics:
            queues = await self._instance.routes.subscribe(topic)
            found += [
                (all_queues(topic, name), self._subscription(topic))
                for name in sorted({queue.broker_name for queue in queues})
            ]
        return found

    def _subscription(self, topic: str) -> Subscription:
        if topic not in self._subscriptions:
            version_ms = self._instance.next_version_ms()
            self._subscriptions[topic] = subscription_of(topic, self._expression, version_ms)
        return self._subscriptions[topic]

    async def pop(self, max_messages: int, poll_ms: int = 0) -> list[ReceivedMessage]:
        """Pops messages, those of higher priority first.

        Args:
            max_messages: 1 to 32.
            poll_ms: how long the last of the brokers may wait for messages if there are none.

        Raises:
            BrokerDownError: no topic of the queue has a broker.
            OperatingError: no broker could be asked; that of the last one.
        """
        places = await self.places()
        if not places:
            raise BrokerDownError(self.topics[-1], "any broker")
        popped: list[ReceivedMessage] = []
        failures: list[OperatingError] = []
        for place, subscription in places:
            if len(popped) == max_messages:
                break
            if self._watches.is_empty(place):
                continue
            is_last = place == places[-1][0] and not popped
            try:
                found = await self._popper.pop(
                    place,
                    subscription,
                    max_messages=max_messages - len(popped),
                    invisible_ms=self._invisible_ms,
                    poll_ms=poll_ms if is_last else 0,
                )
            except OperatingError as e:
                log.info("group %s: nothing is received from %s: %s", self.group, place, e)
                failures.append(e)
                continue
            self._held.add(found)
            popped += found
        if len(failures) == len(places):
            raise failures[-1]
        return popped

    async def wait(self, timeout_ms: int) -> None:
        """Waits until there seem to be messages, or the time is over."""
        await self._watches.wait(await self.places(), timeout_ms)

    async def receive(self, max_messages: int) -> list[ReceivedMessage]:
        """Pops messages; waits for some if there are none, and pauses if no broker answers.

        A receive that is cancelled takes nothing: a wait ends at once, a pop gives back.

        Args:
            max_messages: 1 to 32.

        Returns:
            None at times: whoever calls in a loop calls again.
        """
        popping = self._tasks.spawn(self._asked(self.pop(max_messages)), f"pop for {self.group}")
        try:
            messages: list[ReceivedMessage] | None = await asyncio.shield(popping)
        except asyncio.CancelledError:
            await self.give_back(await popping or [])
            raise
        if messages is None:
            await self._instance.clock.sleep(FAILED_PAUSE_S)
        elif not messages:
            await self._asked(self.wait(WAIT_MS))
        return messages or []

    async def _asked(self, question: Awaitable[T]) -> T | None:
        """What brokers answer; None if they do not, of which the first time is told."""
        try:
            answer = await question
        except OperatingError as e:
            level = logging.INFO if self._is_failing else logging.WARNING
            log.log(level, "group %s receives nothing now: %s", self.group, e)
            self._is_failing = True
            return None
        self._is_failing = False
        return answer

    def acknowledge(self, message: ReceivedMessage) -> None:
        """Says soon that a message is done, together with others."""
        self._held.handled(message)

    async def acknowledge_now(self, messages: list[ReceivedMessage]) -> None:
        """Says that messages are done, and waits until the brokers know.

        Raises:
            What `Popper.acknowledge` raises.
        """
        await self._popper.acknowledge(messages)
        self._let_go(messages)

    async def give_back(self, messages: list[ReceivedMessage]) -> None:
        """Lets others have messages at once, as if they had never been popped."""
        self._let_go(messages)
        await self._popper.give_back(messages)

    def let_go(self, message: ReceivedMessage) -> None:
        """Lets others have a message when its invisible time is over; the delivery counts."""
        self._held.let_go(message)

    async def requeue(self, message: ReceivedMessage, delay_ms: int = 0) -> None:
        """Lets others have a message after a delay; the delivery counts.

        Args:
            message: as it was popped.
            delay_ms: until the message comes again; 0 for at once.

        Raises:
            What `Popper.change_invisible_time` raises; the message comes again later, then.
        """
        self._held.let_go(message)
        await self._popper.change_invisible_time(message, delay_ms)

    async def give_up(self, message: ReceivedMessage, reason: str | BaseException) -> None:
        """Moves a message to the dead letters of the group; if no broker takes it, it comes again.

        Args:
            message: as it was popped.
            reason: what the dead letter tells.
        """
        error = RejectedError(reason) if isinstance(reason, str) else reason
        if not await self._send_back.give_up([message], -1, error):
            self._held.handled(message)
        else:
            self._held.let_go(message)

    def _let_go(self, messages: list[ReceivedMessage]) -> None:
        for message in messages:
            self._held.let_go(message)
