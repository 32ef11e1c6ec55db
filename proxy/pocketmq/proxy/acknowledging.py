"""What consumers say of messages: AckMessage, ChangeInvisibleDuration,
ForwardMessageToDeadLetterQueue; and the renewal of invisible times in their name.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from pocketmq.protocol.requests.consuming import ConsumerSendMsgBackRequest
from pocketmq.protocol.requests.popping import (
    AckMessageRequest,
    ChangeInvisibleTimeRequest,
    ChangeInvisibleTimeResponse,
)
from pocketmq.protocol.wire.command import Command
from pocketmq.proxy import handles
from pocketmq.proxy.backend import Backend
from pocketmq.proxy.calls import Call
from pocketmq.proxy.checks import group_of, topic_of
from pocketmq.proxy.clients import Client, Clients
from pocketmq.proxy.handles import Delivery, HandleKey
from pocketmq.proxy.rpc import messaging_pb2 as pb
from pocketmq.proxy.sending import asked
from pocketmq.proxy.statuses import Refusal, ok, overall, succeeded

INVISIBLE_MS_MAX = 12 * 3_600_000
RENEW_AHEAD_MS = 10_000
RENEWAL_MS = (60_000, 180_000, 300_000, 600_000, 1_800_000, 3_600_000)
RENEW_MS_MAX = 3 * 3_600_000
RENEW_FAILURES_MAX = 3
GIVE_BACK_MS = 1000
"""RocketMQ's limits and times (`ProxyConfig`, `DefaultReceiptHandleManager`)."""

ACKS_OF_CALL_MAX = 4_096
"""Messages that one call may acknowledge; a receive gets 32 at the most."""

ACKS_AT_ONCE = 100
"""Messages that are acknowledged in one turn of the loop, of those that one call names."""

HELD_MAX = 20_000
"""Messages of one client whose invisible times are renewed; further ones keep theirs."""


class Held(NamedTuple):
    """A message whose invisible time is renewed until its consumer has handled it.

    Attributes:
        delivery: with its newest time.
        since_ms: when it was delivered.
        renewals, failures: how often it was renewed, and how often in a row that failed.
    """

    delivery: Delivery
    since_ms: int
    renewals: int = 0
    failures: int = 0


class Acknowledging:
    """Ends deliveries, and prolongs them.

    Args:
        backend: asks brokers.
        clients: who asks.
    """

    def __init__(self, backend: Backend, clients: Clients) -> None:
        self._backend, self._clients = backend, clients

    # -- what clients ask ---------------------------------------------------------------------

    async def ack(self, call: Call, request: pb.AckMessageRequest) -> pb.AckMessageResponse:
        """Says that messages are handled, one by one."""
        client = self._clients.of(call)
        group, topic = group_of(request.group), topic_of(request.topic)
        if not request.entries:
            raise Refusal(pb.BAD_REQUEST, "ack message result is empty: no entries")
        if len(request.entries) > ACKS_OF_CALL_MAX:
            raise Refusal(
                pb.BAD_REQUEST,
                f"one call may acknowledge {ACKS_OF_CALL_MAX} messages: send several",
            )
        if len(request.entries) == 1:
            entries = [await self._ack_one(client, group, topic, request.entries[0])]
        else:
            entries = []
            for start in range(0, len(request.entries), ACKS_AT_ONCE):
                part = request.entries[start : start + ACKS_AT_ONCE]
                acks = (self._ack_one(client, group, topic, entry) for entry in part)
                entries += await asyncio.gather(*acks)
                await self._backend.clock.machine.sleep(0)
        statuses = [entry.status for entry in entries]
        return pb.AckMessageResponse(status=overall(statuses), entries=entries)

    async def _ack_one(
        self, client: Client, group: str, topic: str, entry: pb.AckMessageEntry
    ) -> pb.AckMessageResultEntry:
        try:
            delivery = self._current(client, handles.read(entry.receipt_handle, group, topic))
            await self.acknowledge(client, delivery)
            status = ok()
        except Refusal as e:
            status = e.status
        return pb.AckMessageResultEntry(
            message_id=entry.message_id, receipt_handle=entry.receipt_handle, status=status
        )

    def _current(self, client: Client, delivery: Delivery) -> Delivery:
        """The delivery with the time to which it was renewed.

        Raises:
            Refusal: INVALID_RECEIPT_HANDLE, its time is over, or it is of no broker that is known.
        """
        held: Held | None = client.held.get(delivery.key)
        if held is not None:
            delivery = held.delivery
        handles.check_time(delivery, self._backend.clock.now_ms())
        return delivery

    async def acknowledge(self, client: Client, delivery: Delivery) -> None:
        """Says to a broker that a message is handled.

        Raises:
            Refusal: the broker does not take it.
        """
        handle = delivery.handle
        header = AckMessageRequest(
            consumer_group=delivery.group,
            topic=delivery.topic,
            queue_id=handle.queue_id,
            extra_info=delivery.text,
            offset=handle.queue_offset,
        )
        succeeded(await asked(client, handle.broker_name, Command(header.code, header=header)))
        client.held.pop(delivery.key, None)

    async def change_invisible_duration(
        self, call: Call, request: pb.ChangeInvisibleDurationRequest
    ) -> pb.ChangeInvisibleDurationResponse:
        """Sets anew for how long others do not get a message; 0 gives it back."""
        client = self._clients.of(call)
        group, topic = group_of(request.group), topic_of(request.topic)
        duration_ms = request.invisible_duration.ToMilliseconds()
        if not 0 <= duration_ms <= INVISIBLE_MS_MAX:
            raise Refusal(
                pb.ILLEGAL_INVISIBLE_TIME,
                f"the invisibleTime is {duration_ms} ms: it must be between 0 and "
                f"{INVISIBLE_MS_MAX}",
            )
        delivery = self._current(client, handles.read(request.receipt_handle, group, topic))
        client.held.pop(delivery.key, None)
        renewed = await self.renew(client, delivery, duration_ms, is_suspended=request.suspend)
        return pb.ChangeInvisibleDurationResponse(status=ok(), receipt_handle=renewed.text)

    async def renew(
        self, client: Client, delivery: Delivery, duration_ms: int, *, is_suspended: bool = False
    ) -> Delivery:
        """Sets the invisible time of a message anew; returns it with its new handle.

        Raises:
            Refusal: the broker does not take it.
        """
        handle = delivery.handle
        header = ChangeInvisibleTimeRequest(
            consumer_group=delivery.group,
            topic=delivery.topic,
            queue_id=handle.queue_id,
            extra_info=delivery.text,
            offset=handle.queue_offset,
            invisible_time=duration_ms,
            suspend=is_suspended or None,
        )
        answer = await asked(client, handle.broker_name, Command(header.code, header=header))
        told = succeeded(answer).read(ChangeInvisibleTimeResponse)
        return delivery.renewed(told.pop_time, told.invisible_time)

    async def forward(
        self, call: Call, request: pb.ForwardMessageToDeadLetterQueueRequest
    ) -> pb.ForwardMessageToDeadLetterQueueResponse:
        """Puts a message among its group's dead letters."""
        client = self._clients.of(call)
        group, topic = group_of(request.group), topic_of(request.topic)
        delivery = self._current(client, handles.read(request.receipt_handle, group, topic))
        await self.give_up(client, delivery, request.message_id)
        return pb.ForwardMessageToDeadLetterQueueResponse(status=ok())

    async def give_up(self, client: Client, delivery: Delivery, message_id: str) -> None:
        """Puts a message among the dead letters, and ends its delivery.

        Raises:
            Refusal: the broker does not take it, or the handle does not say where it is.
        """
        if delivery.physical_offset is None:
            raise Refusal(pb.INVALID_RECEIPT_HANDLE, "commit log offset is empty")
        header = ConsumerSendMsgBackRequest(
            offset=delivery.physical_offset,
            group=delivery.group,
            delay_level=-1,
            origin_msg_id=message_id,
            origin_topic=delivery.topic,
            max_reconsume_times=0,
        )
        name = delivery.handle.broker_name
        succeeded(await asked(client, name, Command(header.code, header=header)))
        await self.acknowledge(client, delivery)

    # -- renewal ------------------------------------------------------------------------------

    def hold(self, client: Client, delivery: Delivery) -> None:
        """Renews a message's invisible time from now on, until the client has handled it."""
        if len(client.held) < HELD_MAX:
            client.held[delivery.key] = Held(delivery, self._backend.clock.now_ms())

    async def renew_due(self) -> None:
        """Renews what is due within `RENEW_AHEAD_MS`."""
        due_ms = self._backend.clock.now_ms() + RENEW_AHEAD_MS
        for client in self._clients:
            for key, held in list(client.held.items()):
                if held.delivery.expires_ms <= due_ms:
                    await self._renew_held(client, key, held)

    def next_due_s(self) -> float:
        """For how many seconds `renew_due` finds nothing to do, if nothing else happens."""
        now_ms = self._backend.clock.now_ms()
        first: int | None = min(
            (h.delivery.expires_ms for client in self._clients for h in client.held.values()),
            default=None,
        )
        if first is None:
            return float("inf")
        return max(0.0, (first - RENEW_AHEAD_MS - now_ms) / 1000)

    async def _renew_held(self, client: Client, key: HandleKey, held: Held) -> None:
        now_ms = self._backend.clock.now_ms()
        if now_ms - held.since_ms > RENEW_MS_MAX or held.failures >= RENEW_FAILURES_MAX:
            client.held.pop(key, None)
            return
        duration_ms = RENEWAL_MS[min(held.renewals, len(RENEWAL_MS) - 1)]
        try:
            renewed = await self.renew(client, held.delivery, duration_ms)
        except Refusal:
            after = held._replace(failures=held.failures + 1)
        else:
            after = Held(renewed, held.since_ms, held.renewals + 1)
        if client.held.get(key) is held:  # else it was handled meanwhile
            client.held[key] = after

    async def give_back(self, client: Client) -> None:
        """Gives back soon what a client that is gone has not handled."""
        held, client.held = list(client.held.values()), {}
        for one in held:
            try:
                await self.renew(client, one.delivery, GIVE_BACK_MS)
            except Refusal:
                continue  # its time ends anyway
