"""The requests of a consumer that pops: for messages, and about those it has."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterable, Sequence

from pocketmq.client.errors import BrokerDownError
from pocketmq.client.hooks import ConsumeHooks
from pocketmq.client.instance.instance import ClientInstance
from pocketmq.client.instance.leader_search import is_leader_lost
from pocketmq.client.instance.namespacing import take_out
from pocketmq.client.log_fields import log_fields
from pocketmq.protocol.bodies.clients import (
    CONSUME_FROM_FIRST_OFFSET,
    CONSUME_FROM_LAST_OFFSET,
    SUBSCRIBE_ALL,
    TAG,
    Subscription,
)
from pocketmq.protocol.bodies.popping import BatchAck, BatchAckEntry
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import (
    ConfigError,
    OperatingError,
    PocketMQError,
    UsageError,
    response_error,
)
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.message import MessageQueue, ReceivedMessage
from pocketmq.protocol.messages.receipts import ReceiptHandle
from pocketmq.protocol.popped import popped_messages, topic_read
from pocketmq.protocol.requests.popping import (
    ALL_QUEUES,
    INIT_MAX,
    INIT_MIN,
    AckMessageRequest,
    BatchAckRequest,
    ChangeInvisibleTimeRequest,
    ChangeInvisibleTimeResponse,
    NotificationRequest,
    NotificationResponse,
    PopMessageRequest,
    PopMessageResponse,
)
from pocketmq.protocol.wire.command import Command
from pocketmq.protocol.wire.header import RequestHeader
from pocketmq.transport.errors import CallTimeoutError

log = logging.getLogger("pocketmq.client")

NOTHING_FOUND = (ResponseCode.POLLING_TIMEOUT, ResponseCode.PULL_NOT_FOUND)


def all_queues(topic: str, broker_name: str) -> MessageQueue:
    """Returns what stands for all queues that a broker has of a topic."""
    return MessageQueue(topic, broker_name, ALL_QUEUES)


def init_mode_of(consume_from_where: str) -> int:
    """Returns where a pop begins for a group without an offset.

    Raises:
        ConfigError: pops cannot begin there.
    """
    modes = {CONSUME_FROM_FIRST_OFFSET: INIT_MIN, CONSUME_FROM_LAST_OFFSET: INIT_MAX}
    if consume_from_where not in modes:
        raise ConfigError(
            f"consume_from_where={consume_from_where!r}: consumers that pop begin at "
            f"{' or '.join(modes)}"
        )
    return modes[consume_from_where]


class Popper:
    """Pops messages for one group (`client/impl/MQClientAPIImpl#popMessageAsync`).

    A message that was popped carries its receipt handle in the property POP_CK, by which it is
    acknowledged.

    Args:
        group: the consumer group.
        instance: the connections and the routes; it must be running.
        timeout_ms: how long an answer may take beyond the time for which a broker waits.
        hooks: whose filters are asked for each message; one that they do not want is acknowledged.
        init_mode: where the group begins without an offset, see `init_mode_of`.
        is_ordered: the messages of a queue are given one batch after the other.
    """

    def __init__(
        self,
        group: str,
        instance: ClientInstance,
        timeout_ms: float,
        hooks: ConsumeHooks,
        *,
        init_mode: int = INIT_MAX,
        is_ordered: bool = False,
    ) -> None:
        self._group, self._instance = group, instance
        self._pool, self._routes, self._wrap = (
            instance.pool,
            instance.routes,
            instance.namespace.wrap,
        )
        self._timeout_ms, self._call_timeout_ms = timeout_ms, instance.settings.call_timeout_ms
        self._hooks, self._init_mode, self._is_ordered = hooks, init_mode, is_ordered

    async def pop(
        self,
        queue: MessageQueue,
        subscription: Subscription,
        *,
        max_messages: int,
        invisible_ms: int,
        poll_ms: int = 0,
    ) -> list[ReceivedMessage]:
        """Pops messages; whoever does not wait for the answer any more gives them back.

        Args:
            queue: of `all_queues`.
            subscription: which messages are wanted.
            max_messages: 1 to 32.
            invisible_ms: for how long others do not get them.
            poll_ms: how long the broker may wait for messages when there are none.

        Raises:
            RouteError, NoNameServerError: the broker is not known.
            ResponseError: it refuses.
            ContentError: its answer cannot be read.
            ConnectError, ConnectionClosedError, CallTimeoutError, TooMuchRequestError.
        """
        address = await self._routes.master_of(queue)
        request = PopMessageRequest(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            max_msg_nums=max_messages,
            invisible_time=invisible_ms,
            poll_time=poll_ms,
            born_time=0,  # the broker's now: clocks differ
            init_mode=self._init_mode,
            exp_type=subscription.expression_type or TAG,
            exp=subscription.sub_string or SUBSCRIBE_ALL,
            order=self._is_ordered or None,
        )
        calling = asyncio.ensure_future(
            self._pool.call(address, request, poll_ms + self._timeout_ms)
        )
        try:
            answer = await asyncio.shield(calling)
        except asyncio.CancelledError:
            self._instance.tasks.spawn(self._give_back_unseen(calling, queue), "give back a pop")
            raise
        except CallTimeoutError:
            # The broker may be gone without a word; pops that it holds come again.
            self._pool.drop(address, "a pop was not answered")
            raise
        popped = self._popped(answer, queue, address)
        wanted = self._wanted(popped, subscription)
        if len(wanted) < len(popped):
            wanted_ids = {id(m) for m in wanted}
            await self.acknowledge([m for m in popped if id(m) not in wanted_ids])
        return wanted

    def _popped(self, answer: Command, queue: MessageQueue, address: str) -> list[ReceivedMessage]:
        if answer.code in NOTHING_FOUND:
            return []
        if answer.code != ResponseCode.SUCCESS:
            raise response_error(answer.code, answer.remark, address)
        header = answer.read(PopMessageResponse)
        group, topic = self._wrap(self._group), self._wrap(queue.topic)
        out = []
        for message, handle in popped_messages(
            header, answer.body, group, topic, queue.broker_name
        ):
            take_out(self._instance.namespace, message)
            message.topic = queue.topic
            message.properties[props.POP_CK] = handle.encode()
            message.properties.setdefault(props.FIRST_POP_TIME, str(header.pop_time))
            out.append(message)
        return out

    def _wanted(
        self, messages: list[ReceivedMessage], subscription: Subscription
    ) -> list[ReceivedMessage]:
        """The messages that match exactly: brokers compare hash codes of tags only."""
        if subscription.expression_type in (None, TAG) and subscription.tags_set:
            tags = frozenset(subscription.tags_set)
            messages = [m for m in messages if m.tags in tags]
        return self._hooks.wanted(messages) if self._hooks.filters else messages

    async def _give_back_unseen(
        self, calling: asyncio.Future[Command], queue: MessageQueue
    ) -> None:
        try:
            address = await self._routes.master_of(queue)
            await self.give_back(self._popped(await calling, queue, address))
        except PocketMQError as e:
            log.info("a pop of %s that nobody waits for fails: %s", queue, e)

    async def has_messages(
        self, queue: MessageQueue, subscription: Subscription, poll_ms: int
    ) -> bool:
        """Waits until there is something to pop, `poll_ms` at the most (200054).

        Raises:
            What `pop` raises.
        """
        address = await self._routes.master_of(queue)
        request = NotificationRequest(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            poll_time=poll_ms,
            born_time=self._instance.clock.now_ms(),
            order=self._is_ordered or None,
            exp_type=subscription.expression_type or TAG,
            exp=subscription.sub_string or SUBSCRIBE_ALL,
        )
        answer = await self._pool.ask(address, request, poll_ms + self._timeout_ms)
        return answer.read(NotificationResponse).has_msg

    # -- of messages that were popped ---------------------------------------------------------

    async def acknowledge(self, messages: Sequence[ReceivedMessage]) -> None:
        """Says that messages are handled: one request for each broker.

        Raises:
            UsageError: a message was not popped.
            BrokerDownError: its broker is not known any more.
            ResponseError: a broker refuses.
            ConnectError, ConnectionClosedError, CallTimeoutError, TooMuchRequestError.
        """
        by_broker: dict[str, list[tuple[str, ReceiptHandle]]] = defaultdict(list)
        for message in messages:
            handle = handle_of(message)
            by_broker[handle.broker_name].append((message.topic, handle))
        await asyncio.gather(
            *(self._acknowledge_at(name, popped) for name, popped in by_broker.items())
        )

    async def _acknowledge_at(
        self, broker_name: str, popped: list[tuple[str, ReceiptHandle]]
    ) -> None:
        (topic, handle), *others = popped
        if others:
            body = BatchAck(broker_name=broker_name, acks=list(self._entries(popped)))
            await self._ask_leader(broker_name, topic, BatchAckRequest(), body.encode())
            return
        request = AckMessageRequest(
            consumer_group=self._group,
            topic=self._topic_read(topic, handle),
            queue_id=handle.queue_id,
            extra_info=handle.encode(),
            offset=handle.queue_offset,
        )
        await self._ask_leader(broker_name, topic, request)

    def _entries(self, popped: list[tuple[str, ReceiptHandle]]) -> Iterable[BatchAckEntry]:
        batches: dict[tuple[str, ReceiptHandle], list[int]] = defaultdict(list)
        for topic, handle in popped:
            batches[topic, handle._replace(queue_offset=0)].append(handle.queue_offset)
        for (topic, handle), offsets in batches.items():
            start = min(handle.start_offset, *offsets)
            yield BatchAckEntry(
                c=self._wrap(self._group),
                t=self._wrap(topic),
                r=handle.origin.value,
                so=start,
                q=handle.queue_id,
                rq=handle.revive_qid,
                pt=handle.pop_time,
                it=handle.invisible_time,
                b=BatchAckEntry.bits(start, offsets),
            )

    async def change_invisible_time(
        self, message: ReceivedMessage, invisible_ms: int, *, is_suspended: bool = False
    ) -> None:
        """Sets anew for how long others do not get a message; it gets a new handle.

        Args:
            message: as it was popped.
            invisible_ms: from now on; 0 gives it back.
            is_suspended: the delivery counts as no attempt.

        Raises:
            What `acknowledge` raises.
        """
        handle = handle_of(message)
        request = ChangeInvisibleTimeRequest(
            consumer_group=self._group,
            topic=self._topic_read(message.topic, handle),
            queue_id=handle.queue_id,
            extra_info=handle.encode(),
            offset=handle.queue_offset,
            invisible_time=invisible_ms,
            suspend=is_suspended or None,
        )
        answer = await self._ask_leader(handle.broker_name, message.topic, request)
        told = answer.read(ChangeInvisibleTimeResponse)
        renewed = handle._replace(
            start_offset=handle.queue_offset,
            pop_time=told.pop_time,
            invisible_time=told.invisible_time,
            revive_qid=told.revive_qid,
        )
        message.properties[props.POP_CK] = renewed.encode()

    async def give_back(self, messages: Iterable[ReceivedMessage]) -> None:
        """Lets others have messages at once, as if they had never been popped.

        What a broker does not take back comes again when its invisible time is over.
        """
        await asyncio.gather(*(self._give_one_back(message) for message in messages))

    async def _give_one_back(self, message: ReceivedMessage) -> None:
        try:
            await self.change_invisible_time(message, 0, is_suspended=True)
        except PocketMQError as e:
            log.info(
                "message %s comes again when its invisible time is over: %s",
                message.msg_id,
                e,
                extra=log_fields(self._group, message=message),
            )

    def _topic_read(self, topic: str, handle: ReceiptHandle) -> str:
        return topic_read(handle.origin, self._wrap(self._group), self._wrap(topic))

    async def _ask_leader(
        self, broker_name: str, topic: str, request: RequestHeader, body: bytes = b""
    ) -> Command:
        """Asks the leader of a broker; if it is lost, its successor, within the time of a call."""
        clock, timeout_ms = self._instance.clock, self._call_timeout_ms
        deadline_s = clock.monotonic() + timeout_ms / 1000
        try:
            address = self._master(broker_name, topic)
            return await self._pool.ask(address, request, timeout_ms, body)
        except OperatingError as e:
            if not isinstance(e, BrokerDownError) and not is_leader_lost(e):
                raise
            if not await self._instance.leader_search.find(broker_name, deadline_s):
                raise
        left_ms = max((deadline_s - clock.monotonic()) * 1000, 1)
        return await self._pool.ask(self._master(broker_name, topic), request, left_ms, body)

    def _master(self, broker_name: str, topic: str) -> str:
        address = self._routes.master_address(broker_name)
        if address is None:
            raise BrokerDownError(topic, f"the master of {broker_name}")
        return address


def handle_of(message: ReceivedMessage) -> ReceiptHandle:
    """Returns the receipt handle of a message.

    Raises:
        UsageError: the message was not popped.
        ContentError: its handle cannot be read.
    """
    text = message.properties.get(props.POP_CK)
    if text is None:
        raise UsageError(
            f"message {message.msg_id} has no receipt handle: only messages that were popped are "
            f"acknowledged one by one"
        )
    return ReceiptHandle.decode(text)
