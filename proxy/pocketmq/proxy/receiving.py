"""ReceiveMessage: pops messages, and streams them (`ReceiveMessageActivity`)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import NamedTuple

from pocketmq.protocol.bodies.clients import SQL92, TAG, GroupConfig
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import ContentError
from pocketmq.protocol.messages.message import ReceivedMessage
from pocketmq.protocol.popped import popped_messages, topic_read
from pocketmq.protocol.requests.popping import (
    ALL_QUEUES,
    INIT_MAX,
    POPPED_MAX,
    PopMessageRequest,
    PopMessageResponse,
)
from pocketmq.protocol.wire.command import Command
from pocketmq.proxy import handles
from pocketmq.proxy.acknowledging import INVISIBLE_MS_MAX, Acknowledging
from pocketmq.proxy.backend import Backend
from pocketmq.proxy.calls import Call
from pocketmq.proxy.checks import group_of, topic_of
from pocketmq.proxy.clients import Client, Clients
from pocketmq.proxy.handles import Delivery
from pocketmq.proxy.messages import received
from pocketmq.proxy.routing import Routing
from pocketmq.proxy.rpc import messaging_pb2 as pb
from pocketmq.proxy.sending import asked
from pocketmq.proxy.statuses import Refusal, ok, refusal_of

POLL_S_MIN, POLL_S_MAX = 5.0, 20.0
INVISIBLE_MS_MIN = 10_000
RENEWED_INVISIBLE_MS = 60_000
REQUEST_TIMEOUT_S = 3.0
"""RocketMQ's limits and times (`ProxyConfig`)."""

ANSWER_S = 0.5
"""So long before its deadline a receive that got nothing is answered. RocketMQ's proxy answers at
the deadline, and Rust's SDK, whose deadline is the time of the poll, takes that as a fault.
"""

AT_ONCE_SIZE_MAX = 64 * 1024
"""Bytes of an answer that leave together with its end."""

NOTHING_NEW = "no new message"
NOTHING_MATCHES = "no match message"


class _Wanted(NamedTuple):
    """What a receive asks for.

    Attributes:
        header: of the pop; whether it is ordered is up to the group.
        broker_name: where; empty for any.
        auto_renew: whether the invisible times of the messages are renewed.
    """

    header: PopMessageRequest
    broker_name: str
    auto_renew: bool


class Receiving:
    """Pops messages for consumers.

    Args:
        backend: knows groups.
        clients: who asks.
        routing: knows brokers.
        acknowledging: renews invisible times, and puts away what was tried too often.
    """

    def __init__(
        self, backend: Backend, clients: Clients, routing: Routing, acknowledging: Acknowledging
    ) -> None:
        self._backend, self._clients = backend, clients
        self._routing, self._acknowledging = routing, acknowledging
        self._turn = 0

    def receive(self, call: Call, request: pb.ReceiveMessageRequest) -> Awaitable[Sequence[bytes]]:
        """Answers with a status, the messages, and the time of their delivery.

        Of the request a held receive keeps only what it needs: thousands may wait.
        """
        try:
            client = self._clients.of(call)
            wanted = _wanted(call, request)
        except Refusal as e:
            return self.refuse(e)
        return self._receive(call, client, wanted)

    async def refuse(self, refusal: Refusal) -> Sequence[bytes]:
        """Answers with a status and the time."""
        return self._frames(refusal.status, ())

    async def _receive(self, call: Call, client: Client, wanted: _Wanted) -> Sequence[bytes]:
        try:
            messages = await self._received(call, client, wanted)
        except Refusal as e:
            return self._frames(e.status, ())
        frames = self._frames(ok(), messages)
        if sum(map(len, frames)) > AT_ONCE_SIZE_MAX:
            for frame in frames:  # no more than the client reads
                await call.write(frame)
            return ()
        return frames

    def _frames(self, status: pb.Status, messages: Sequence[pb.Message]) -> list[bytes]:
        last = pb.ReceiveMessageResponse()
        last.delivery_timestamp.FromMilliseconds(self._backend.clock.now_ms())
        frames = [pb.ReceiveMessageResponse(status=status)]
        frames += [pb.ReceiveMessageResponse(message=message) for message in messages]
        return [frame.SerializeToString() for frame in (*frames, last)]

    async def _received(self, call: Call, client: Client, wanted: _Wanted) -> list[pb.Message]:
        header = wanted.header
        config = await self._backend.group(header.consumer_group)
        if config is None:
            group = header.consumer_group
            raise Refusal(
                pb.CONSUMER_GROUP_NOT_FOUND,
                f"the group {group} does not exist: create it with `pocketmq group create {group}` "
                f"or mqadmin updateSubGroup",
            )
        header.order = config.consume_message_orderly
        broker_name = wanted.broker_name or await self._any_broker(header.topic)
        client.calls += 1
        try:
            answer = await asked(client, broker_name, Command(header.code, header=header))
        finally:
            client.calls -= 1
        return await self._taken(call, client, wanted, config, broker_name, answer)

    async def _any_broker(self, topic: str) -> str:
        route = await self._routing.route_of(topic)
        self._turn += 1
        return route.queue_datas[self._turn % len(route.queue_datas)].broker_name

    async def _taken(
        self,
        call: Call,
        client: Client,
        wanted: _Wanted,
        config: GroupConfig,
        broker_name: str,
        answer: Command,
    ) -> list[pb.Message]:
        """The messages of a pop, besides those that were tried too often."""
        if answer.code in (ResponseCode.POLLING_TIMEOUT, ResponseCode.PULL_NOT_FOUND):
            raise Refusal(pb.MESSAGE_NOT_FOUND, NOTHING_NEW)
        if answer.code == ResponseCode.POLLING_FULL:
            raise Refusal(pb.TOO_MANY_REQUESTS, "polling full")
        if answer.code != ResponseCode.SUCCESS:
            raise refusal_of(answer)
        group, topic = config.group_name, wanted.header.topic
        now_ms = self._backend.clock.now_ms()
        out: list[pb.Message] = []
        taken: list[Delivery] = []
        for message, delivery in _deliveries(answer, group, topic, broker_name):
            # An ordered group's own client puts away what it has tried too often.
            if message.reconsume_times > config.retry_max_times and not delivery.handle.is_ordered:
                await self._acknowledging.give_up(client, delivery, message.msg_id)
                continue
            taken.append(delivery)
            out.append(received(message, topic, delivery.text, now_ms))
        if not call.is_open:
            await self._give_back(client, taken)
        elif wanted.auto_renew:
            for delivery in taken:
                self._acknowledging.hold(client, delivery)
        if not out:
            raise Refusal(pb.MESSAGE_NOT_FOUND, NOTHING_MATCHES)
        return out

    async def _give_back(self, client: Client, taken: list[Delivery]) -> None:
        """The client is gone before it got its messages: they were no attempt."""
        await asyncio.gather(
            *(self._acknowledging.renew(client, one, 0, is_suspended=True) for one in taken),
            return_exceptions=True,
        )


def _wanted(call: Call, request: pb.ReceiveMessageRequest) -> _Wanted:
    """What a receive asks for.

    Raises:
        Refusal: it makes no sense.
    """
    group, topic = group_of(request.group), topic_of(request.message_queue.topic)
    wanted = request.long_polling_timeout if request.HasField("long_polling_timeout") else None
    wanted_s = None if wanted is None else wanted.ToMilliseconds() / 1000
    poll_ms = round(poll_s(call.remaining_s(), wanted_s) * 1000)
    expression = request.filter_expression
    header = PopMessageRequest(
        consumer_group=group,
        topic=topic,
        queue_id=ALL_QUEUES,
        max_msg_nums=min(max(request.batch_size, 1), POPPED_MAX),
        invisible_time=_invisible_ms(request),
        poll_time=poll_ms,
        born_time=0,
        init_mode=INIT_MAX,
        exp_type=SQL92 if expression.type == pb.SQL else TAG,
        exp=expression.expression or "*",
        attempt_id=request.attempt_id or None,
    )
    return _Wanted(header, request.message_queue.broker.name, request.auto_renew)


def _deliveries(
    answer: Command, group: str, topic: str, broker_name: str
) -> list[tuple[ReceivedMessage, Delivery]]:
    """The messages of a pop with their handles.

    Raises:
        Refusal: INTERNAL_SERVER_ERROR, the answer makes no sense.
    """
    header = answer.read(PopMessageResponse)
    try:
        popped = popped_messages(header, answer.body, group, topic, broker_name)
    except ContentError as e:
        raise Refusal(pb.INTERNAL_SERVER_ERROR, f"the broker's answer makes no sense: {e}") from e
    out = []
    for message, handle in popped:
        place = message.physical_offset
        text = handles.encode(handle, place)
        real_topic = topic_read(handle.origin, group, topic)
        out.append((message, Delivery(group, real_topic, handle, place, text)))
    return out


def poll_s(left_s: float | None, wanted_s: float | None) -> float:
    """For how long a receive waits: within RocketMQ's limits, and before the client's deadline.

    Args:
        left_s: seconds until the deadline; None without one.
        wanted_s: seconds that the client wants to wait; None when it does not say.

    Raises:
        Refusal: ILLEGAL_POLLING_TIME, the deadline is too near.
    """
    if wanted_s is None:
        wanted_s = POLL_S_MAX if left_s is None else left_s - REQUEST_TIMEOUT_S / 2
    wanted_s = min(max(wanted_s, POLL_S_MIN), POLL_S_MAX)
    if left_s is None:
        return wanted_s
    if left_s >= POLL_S_MIN:
        return min(wanted_s, left_s - ANSWER_S)
    raise Refusal(
        pb.ILLEGAL_POLLING_TIME,
        f"The deadline time remaining is not enough for polling, please check network condition: "
        f"{left_s:.3f} s are left, at least {POLL_S_MIN:g} s are needed",
    )


def _invisible_ms(request: pb.ReceiveMessageRequest) -> int:
    """For how long others do not get the messages.

    Raises:
        Refusal: ILLEGAL_INVISIBLE_TIME.
    """
    if request.auto_renew:
        return RENEWED_INVISIBLE_MS
    invisible_ms: int = request.invisible_duration.ToMilliseconds()
    if invisible_ms < INVISIBLE_MS_MIN:
        raise Refusal(
            pb.ILLEGAL_INVISIBLE_TIME,
            f"the invisibleTime is too small. min is {INVISIBLE_MS_MIN}",
        )
    if invisible_ms > INVISIBLE_MS_MAX:
        raise Refusal(
            pb.ILLEGAL_INVISIBLE_TIME,
            f"the invisibleTime is too large. max is {INVISIBLE_MS_MAX}",
        )
    return invisible_ms
