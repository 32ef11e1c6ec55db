"""A channel of kombu: it sends, and hands out what was popped."""

from __future__ import annotations

import logging
from collections import deque
from queue import Empty
from typing import Any

from kombu.transport import virtual

from pocketmq.client.consumers.priority_topics import topic_of_priority
from pocketmq.kombu.blocking_link import BlockingLink
from pocketmq.kombu.linked_queue import Delivery, LinkedQueue
from pocketmq.kombu.messages import is_expired, packed, unpacked
from pocketmq.kombu.names import entity_name
from pocketmq.protocol.errors import ContentError, PocketMQError
from pocketmq.protocol.messages.message import ReceivedMessage
from pocketmq.protocol.requests.popping import POPPED_MAX

log = logging.getLogger("pocketmq.kombu")

REJECTED = "rejected by the consumer"


class QoS(virtual.QoS):
    """The deliveries of a channel that are not settled; the broker holds the messages."""

    def ack(self, delivery_tag: str) -> None:
        """Says that a message is done."""
        super().ack(delivery_tag)  # before the receiver looks for room
        self.channel.acknowledge(delivery_tag)

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        """Gives a message to the next consumer, or to the dead letters."""
        super().ack(delivery_tag)
        self.channel.refuse(delivery_tag, requeue)

    def restore_unacked(self) -> list[Any]:
        """Gives all messages to other consumers; this counts as no delivery."""
        self._flush()
        tags = list(self._delivered)
        self._delivered.clear()
        self.channel.give_back(tags)
        return []


class Channel(virtual.Channel):
    """A channel of kombu on topics and groups of RocketMQ.

    A queue is a topic with a group of the same name. A fanout exchange is a topic, too, which the
    group of each queue reads that is bound to it. The bindings of other exchanges are known in
    the process that declares them, as with kombu's other virtual transports.

    Args:
        connection: the transport.
    """

    QoS = QoS
    supports_fanout = True

    def __init__(self, connection: Any, **kwargs: Any) -> None:
        super().__init__(connection, **kwargs)
        self.link: BlockingLink = connection.link
        self._inbox: deque[Delivery] = deque()
        self._unsettled: dict[str, Delivery] = {}
        self._no_ack: set[str] = set()
        self._temporary: set[str] = set()
        self._arrived = connection.arrived
        self._receiver = self.link.receiver(self._room, self._take, self._withdraw)

    # -- exchanges and queues -----------------------------------------------------------------

    def exchange_declare(self, exchange: str | None = None, type: str = "direct", **kw: Any) -> Any:
        """Declares an exchange."""
        if exchange in self.link.options.fanout_exchanges:
            type = "fanout"
        return super().exchange_declare(exchange, type, **kw)

    def queue_declare(self, queue: str | None = None, passive: bool = False, **kwargs: Any) -> Any:
        """Declares a queue; a temporary one is deleted with its consumer or with the channel."""
        declared = super().queue_declare(queue, passive, **kwargs)
        if not passive and (kwargs.get("auto_delete") or kwargs.get("exclusive")):
            self._temporary.add(declared.queue)
        return declared

    def queue_delete(
        self, queue: str, if_unused: bool = False, if_empty: bool = False, **kwargs: Any
    ) -> None:
        """Deletes a queue with its messages."""
        if if_empty and self._size(queue):
            return
        for key in list(self.state.queue_index.get(queue, ())):
            self.queue_unbind(queue, key.exchange, key.routing_key)
        self.state.queue_bindings_delete(queue)
        self._temporary.discard(queue)
        self.link.run(lambda _: self._receiver.remove(queue))
        self.link.run(lambda link: link.delete_queue(queue))

    def after_reply_message_received(self, queue: str) -> None:
        """Has a queue deleted that was made for one reply, when its consumer leaves it."""
        self._temporary.add(queue)

    def _new_queue(self, queue: str, **_: Any) -> None:
        self.link.run(lambda link: link.make_queue(queue))

    def _has_queue(self, queue: str, **_: Any) -> bool:
        return self.link.run(lambda link: link.has_queue(queue))

    def _size(self, queue: str) -> int:
        return self.link.run(lambda link: link.size(queue))

    def _purge(self, queue: str) -> int:
        unseen = self._withdraw(queue)
        if unseen:
            messages = [delivery.message for delivery in unseen]
            self.link.run(lambda _: unseen[0].queue.acknowledge_now(messages))
        return len(unseen) + self.link.run(lambda link: link.purge(queue))

    def _queue_bind(self, exchange: str, routing_key: str, pattern: Any, queue: str) -> None:
        if self.typeof(exchange).type == "fanout":
            self.link.run(lambda link: link.bind_to_fanout(queue, exchange))

    def _lookup(self, exchange: str, routing_key: str, default: str | None = None) -> Any:
        """The queues for a message; replies of Celery go to queues of other processes by name."""
        table = self.state.exchanges.get(exchange, {}).get("table", ())
        if exchange.startswith("reply.") and not any(key == routing_key for key, _, _ in table):
            return [f"{routing_key}.{exchange}"]
        return super()._lookup(exchange, routing_key, default)

    # -- sending ------------------------------------------------------------------------------

    def encode_body(self, body: Any, encoding: str | None = None) -> tuple[Any, str | None]:
        """Leaves text as it is, so that consoles can show it."""
        return (body, None) if isinstance(body, str) else super().encode_body(body, encoding)

    def _put(self, queue: str, message: dict[str, Any], **_: Any) -> None:
        options = self.link.options
        topic = topic_of_priority(
            entity_name(queue, options.queue_name_prefix),
            options.priority_steps,
            self._get_message_priority(message),
        )
        self._send(topic, message)

    def _put_fanout(
        self, exchange: str, message: dict[str, Any], routing_key: str | None, **_: Any
    ) -> None:
        self._send(entity_name(exchange, self.link.options.queue_name_prefix), message)

    def _send(self, topic: str, payload: dict[str, Any]) -> None:
        message = packed(topic, payload, self.link.options, self.link.clock.now_ms())
        self.link.run(lambda link: link.send(message))

    # -- receiving ----------------------------------------------------------------------------

    def basic_consume(
        self, queue: str, no_ack: bool, callback: Any, consumer_tag: str, **kwargs: Any
    ) -> None:
        """Begins to consume from a queue."""
        super().basic_consume(queue, no_ack, callback, consumer_tag, **kwargs)
        (self._no_ack.add if no_ack else self._no_ack.discard)(queue)
        self.link.run(lambda link: self._receiver.add(link.queue(queue)))

    def basic_cancel(self, consumer_tag: str) -> None:
        """Ends a consumer; what nobody has seen goes to others."""
        queue = self._tag_to_queue.get(consumer_tag)
        super().basic_cancel(consumer_tag)
        if queue is None or queue in self._active_queues or self.link.is_inherited:
            return
        self.link.run(lambda _: self._receiver.remove(queue))
        if queue in self._temporary:
            self._delete_temporary(queue)

    def basic_qos(
        self, prefetch_size: int = 0, prefetch_count: int = 0, apply_global: bool = False
    ) -> None:
        """Sets how many messages may be unsettled."""
        super().basic_qos(prefetch_size, prefetch_count, apply_global)
        self.wake()

    def basic_get(self, queue: str, no_ack: bool = False, **kwargs: Any) -> Any:
        """Gets one message, if there is one."""
        message = super().basic_get(queue, no_ack, **kwargs)
        if message is not None and no_ack:
            self.acknowledge(message.delivery_tag)
        return message

    def _get(self, queue: str, timeout: float | None = None) -> dict[str, Any]:
        while (delivery := self._next(queue)) is not None:
            payload = self._opened(delivery)
            if payload is not None:
                return payload
        raise Empty

    def _next(self, queue: str) -> Delivery | None:
        """Returns what was received for a consumer of the queue, or else asks the brokers."""
        return (
            self._received(queue)
            or self.link.run(lambda link: link.pop_one(queue))
            or self._received(queue)  # the receiver was quicker
        )

    def _received(self, queue: str) -> Delivery | None:
        with self._arrived:
            received = next((d for d in self._inbox if d.queue.name == queue), None)
            if received is not None:
                self._inbox.remove(received)
        return received

    def deliver(self) -> int:
        """Hands out what was received, as far as the prefetch count allows.

        Returns:
            How many messages consumers got.
        """
        count = 0
        while self.qos.can_consume() and not self.closed:
            with self._arrived:
                delivery = self._inbox.popleft() if self._inbox else None
            if delivery is None:
                break
            payload = self._opened(delivery)
            if payload is not None:
                if delivery.queue.name in self._no_ack:
                    self.acknowledge(payload["properties"]["delivery_tag"])
                self.connection._deliver(payload, delivery.queue.name)
                count += 1
        if count:
            self.wake()
        return count

    def _opened(self, delivery: Delivery) -> dict[str, Any] | None:
        """Reads a message; one that is not to be delivered is settled."""
        queue, message = delivery
        tag = self._next_delivery_tag()
        reason = ""
        try:
            payload = unpacked(message, tag)
        except ContentError as e:
            reason = str(e)
        else:
            if is_expired(message, payload, self.link.clock.now_ms()):
                self.link.call(queue.acknowledge, message)
                return None
            if message.reconsume_times <= self.link.options.redeliveries_max:
                self._unsettled[tag] = delivery
                return payload
            reason = f"delivered {message.reconsume_times} times and never acknowledged"
        log.warning("queue %s: message %s is a dead letter: %s", queue.name, message.msg_id, reason)
        self.link.run(lambda _: queue.give_up(message, reason))
        return None

    # -- of the receiver, on its loop ---------------------------------------------------------

    def _room(self) -> int:
        estimate = self.qos.can_consume_max_estimate()
        wanted = POPPED_MAX if estimate is None else min(estimate, POPPED_MAX)
        return wanted - len(self._inbox)

    def _take(self, deliveries: list[Delivery]) -> None:
        with self._arrived:
            self._inbox.extend(deliveries)
        self.connection.notify()

    def _withdraw(self, name: str) -> list[Delivery]:
        with self._arrived:
            withdrawn = [delivery for delivery in self._inbox if delivery.queue.name == name]
            for delivery in withdrawn:
                self._inbox.remove(delivery)
        return withdrawn

    # -- settling -----------------------------------------------------------------------------

    def acknowledge(self, delivery_tag: str) -> None:
        """Says that a message is done."""
        delivery = self._unsettled.pop(delivery_tag, None)
        if delivery is not None:
            self.link.call(delivery.queue.acknowledge, delivery.message)
            self.wake()

    def refuse(self, delivery_tag: str, requeue: bool) -> None:
        """Gives a message to the next consumer, or to the dead letters."""
        delivery = self._unsettled.pop(delivery_tag, None)
        if delivery is None:
            return
        queue, message = delivery
        if requeue:
            self.link.run(lambda _: queue.requeue(message))
        else:
            self.link.run(lambda _: queue.give_up(message, REJECTED))
        self.wake()

    def give_back(self, delivery_tags: list[str]) -> None:
        """Gives messages to other consumers; this counts as no delivery."""
        if self.link.is_inherited:
            return
        for tag in delivery_tags:
            delivery = self._unsettled.pop(tag, None)
            if delivery is not None:
                self._give_one_back(*delivery)

    def _give_one_back(self, queue: LinkedQueue, message: ReceivedMessage) -> None:
        self.link.run(lambda _: queue.give_back([message]))

    def wake(self) -> None:
        """Has the receiver look for messages: there may be room for more."""
        if not self.link.is_inherited:
            self.link.call(self._receiver.wake)
            if (transport := self.connection) is not None:
                transport.notify()

    # -- the end ------------------------------------------------------------------------------

    def close(self) -> None:
        """Gives back what is not acknowledged, and deletes temporary queues. Idempotent."""
        if self.closed:
            return
        super().close()
        if self.link.is_inherited:
            return
        self.link.run(lambda _: self._receiver.close())
        for queue in list(self._temporary):
            self._delete_temporary(queue)

    def _delete_temporary(self, queue: str) -> None:
        try:
            self._temporary.discard(queue)
            self.link.run(lambda link: link.delete_queue(queue))
        except PocketMQError as e:
            log.warning("the temporary queue %s is left behind: %s", queue, e)
