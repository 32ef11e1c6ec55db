"""Sends, recalls and the ends of transactions: SendMessage, RecallMessage, EndTransaction."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import NamedTuple

from pocketmq.protocol import flags
from pocketmq.protocol.bodies.routes import QueueData
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import OperatingError, PocketMQError
from pocketmq.protocol.flags import is_writable
from pocketmq.protocol.messages.ids import parse_offset_msg_id
from pocketmq.protocol.messages.recall_handle import parse_recall_handle
from pocketmq.protocol.requests.sending import (
    RecallMessageRequest,
    RecallMessageResponse,
    SendMessageResponse,
)
from pocketmq.protocol.requests.transactions import EndTransactionRequest
from pocketmq.protocol.wire.command import Command
from pocketmq.proxy.backend import Backend
from pocketmq.proxy.calls import Call
from pocketmq.proxy.checks import check_message, topic_of
from pocketmq.proxy.clients import Client, Clients
from pocketmq.proxy.consistent_hash import bucket_of
from pocketmq.proxy.messages import MIXED, properties_of, send_request, type_of_properties
from pocketmq.proxy.routing import Routing
from pocketmq.proxy.rpc import messaging_pb2 as pb
from pocketmq.proxy.statuses import Refusal, ok, overall, refusal_of, succeeded

MESSAGES_MAX = 1024
"""Messages of one call."""

TOPICS_MAX = 10_000
"""Topics whose writable queues are remembered; beyond them all are forgotten."""

OPEN_TRANSACTIONS_MAX = 100_000
"""Half messages whose places are remembered; the oldest are forgotten first: checks of the broker
find them again."""


class HalfMessage(NamedTuple):
    """Where a half message is.

    Attributes:
        broker_name: which has it.
        offset, physical_offset: in the queue of half messages, and in the broker's store.
    """

    broker_name: str
    offset: int
    physical_offset: int


class Transactions:
    """The half messages that were sent, or asked about, by topic and transaction id."""

    def __init__(self) -> None:
        self._open: OrderedDict[tuple[str, str], HalfMessage] = OrderedDict()

    def note(self, topic: str, transaction_id: str, half: HalfMessage) -> None:
        """Remembers where a half message is."""
        self._open[topic, transaction_id] = half
        self._open.move_to_end((topic, transaction_id))
        if len(self._open) > OPEN_TRANSACTIONS_MAX:
            self._open.popitem(last=False)

    def take(self, topic: str, transaction_id: str) -> HalfMessage | None:
        """Forgets a half message, and returns where it is."""
        return self._open.pop((topic, transaction_id), None)


class Sending:
    """Sends messages to brokers.

    Args:
        backend: knows the brokers.
        clients: who asks.
        routing: knows queues and types of topics.
        transactions: remembers half messages.
    """

    def __init__(
        self, backend: Backend, clients: Clients, routing: Routing, transactions: Transactions
    ) -> None:
        self._backend, self._clients, self._routing = backend, clients, routing
        self._transactions = transactions
        self._writable: dict[str, tuple[list[QueueData], list[tuple[str, int]]]] = {}
        self._turn = 0

    async def send(self, call: Call, request: pb.SendMessageRequest) -> pb.SendMessageResponse:
        """Stores messages of one topic; the answer has an entry for each of them."""
        client = self._clients.of(call)
        messages = request.messages
        if not messages:
            raise Refusal(pb.MESSAGE_CORRUPTED, "no message to send")
        if len(messages) > MESSAGES_MAX:
            raise Refusal(pb.MESSAGE_CORRUPTED, f"one call may send {MESSAGES_MAX} messages")
        topic = topic_of(messages[0].topic)
        now_ms = self._backend.clock.now_ms()
        for message in messages:
            if message.topic.name != topic:
                raise Refusal(pb.MESSAGE_CORRUPTED, "topic in message is not same")
            check_message(message, now_ms)
        expected = await self._routing.type_of(topic)
        queues = await self._writable_queues(topic)
        sends = [
            self._send_one(client, message, topic, expected, queues, call.remote_address, now_ms)
            for message in messages
        ]
        entries = [await sends[0]] if len(sends) == 1 else await asyncio.gather(*sends)
        statuses = [entry.status for entry in entries]
        return pb.SendMessageResponse(status=overall(statuses), entries=entries)

    async def _writable_queues(self, topic: str) -> list[tuple[str, int]]:
        datas = (await self._routing.route_of(topic)).queue_datas
        known = self._writable.get(topic)
        if known is not None and known[0] == datas:
            return known[1]
        queues = [
            (data.broker_name, queue_id)
            for data in sorted(datas, key=lambda data: data.broker_name)
            if is_writable(data.perm)
            for queue_id in range(data.write_queue_nums)
        ]
        if not queues:
            raise Refusal(pb.FORBIDDEN, f"no writable queue of the topic {topic}")
        if len(self._writable) >= TOPICS_MAX:
            self._writable.clear()
        self._writable[topic] = datas, queues
        return queues

    async def _send_one(
        self,
        client: Client,
        message: pb.Message,
        topic: str,
        expected: str,
        queues: list[tuple[str, int]],
        address: str,
        now_ms: int,
    ) -> pb.SendResultEntry:
        try:
            return await self._stored(client, message, topic, expected, queues, address, now_ms)
        except Refusal as e:
            return pb.SendResultEntry(status=e.status)

    async def _stored(
        self,
        client: Client,
        message: pb.Message,
        topic: str,
        expected: str,
        queues: list[tuple[str, int]],
        address: str,
        now_ms: int,
    ) -> pb.SendResultEntry:
        properties = properties_of(message, topic, address)
        actual = type_of_properties(properties)
        if expected not in (actual, MIXED):
            raise Refusal(
                pb.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
                f"TopicMessageType validate failed, the expected type is {expected}, but actual "
                f"type is {actual}: change the topic with `pocketmq topic update {topic} "
                f"--attribute +message.type={actual}` or mqadmin updateTopic -a "
                f"+message.type={actual}",
            )
        system = message.system_properties
        group = system.message_group or system.lite_topic
        if group:
            broker_name, queue_id = queues[bucket_of(group, len(queues))]
        else:
            self._turn += 1
            broker_name, queue_id = queues[self._turn % len(queues)]
        header, body = send_request(message, topic, queue_id, properties, now_ms)
        command = Command(header.code, header=header, body=body)
        answer = await asked(client, broker_name, command)
        if answer.code not in _STORED:
            raise refusal_of(answer)
        result = answer.read(SendMessageResponse)
        transaction_id = system.message_id
        if actual == "TRANSACTION":
            self._note_half(topic, transaction_id, broker_name, result)
        return pb.SendResultEntry(
            status=ok() if answer.code == ResponseCode.SUCCESS else refusal_of(answer).status,
            message_id=system.message_id,
            transaction_id=result.transaction_id or transaction_id,
            offset=result.queue_offset,
            recall_handle=result.recall_handle or "",
        )

    def _note_half(
        self, topic: str, transaction_id: str, broker_name: str, result: SendMessageResponse
    ) -> None:
        try:
            _, physical_offset = parse_offset_msg_id(result.msg_id)
        except PocketMQError:
            return  # an older broker: its check brings the place
        half = HalfMessage(broker_name, result.queue_offset, physical_offset)
        self._transactions.note(topic, transaction_id, half)

    async def end_transaction(
        self, call: Call, request: pb.EndTransactionRequest
    ) -> pb.EndTransactionResponse:
        """Commits or rolls back a half message."""
        client = self._clients.of(call)
        topic = topic_of(request.topic)
        if not request.transaction_id.strip():
            raise Refusal(pb.INVALID_TRANSACTION_ID, "transaction id cannot be blank")
        half = self._transactions.take(topic, request.transaction_id)
        if half is None:
            raise Refusal(
                pb.INTERNAL_SERVER_ERROR,
                f"cannot found transaction data of {request.transaction_id:.80}: it has ended "
                f"already, or another endpoint knows it; the broker will ask",
            )
        decision = _DECISIONS.get(request.resolution, 0)
        header = EndTransactionRequest(
            topic=topic,
            producer_group=topic,
            tran_state_table_offset=half.offset,
            commit_log_offset=half.physical_offset,
            commit_or_rollback=decision,
            from_transaction_check=request.source == pb.SOURCE_SERVER_CHECK,
            msg_id=request.message_id,
            transaction_id=request.transaction_id,
        )
        if decision:
            succeeded(await asked(client, half.broker_name, Command(header.code, header=header)))
        return pb.EndTransactionResponse(status=ok())

    async def recall(
        self, call: Call, request: pb.RecallMessageRequest
    ) -> pb.RecallMessageResponse:
        """Calls a delayed message back."""
        client = self._clients.of(call)
        topic = topic_of(request.topic)
        expected = await self._routing.type_of(topic)
        if expected not in ("DELAY", MIXED):
            raise Refusal(
                pb.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
                f"TopicMessageType validate failed, the expected type is {expected}, but actual "
                f"type is DELAY",
            )
        try:
            handle = parse_recall_handle(request.recall_handle)
        except PocketMQError as e:
            raise Refusal(pb.INTERNAL_SERVER_ERROR, f"recall handle is invalid: {e}") from e
        header = RecallMessageRequest(
            producer_group=topic, topic=topic, recall_handle=request.recall_handle
        )
        answer = await asked(client, handle.broker_name, Command(header.code, header=header))
        message_id = succeeded(answer).read(RecallMessageResponse).msg_id
        return pb.RecallMessageResponse(status=ok(), message_id=message_id)


_STORED = (
    ResponseCode.SUCCESS,
    ResponseCode.FLUSH_DISK_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE,
)

_DECISIONS = {
    pb.COMMIT: flags.TRANSACTION_COMMIT,
    pb.ROLLBACK: flags.TRANSACTION_ROLLBACK,
}


async def asked(client: Client, broker_name: str, command: Command) -> Command:
    """Asks a broker in a client's name.

    Raises:
        Refusal: the broker cannot be asked.
    """
    try:
        return await client.session.ask(broker_name, command)
    except OperatingError as e:
        if not client.session.is_open:
            client.cut_off()
        raise Refusal(pb.PROXY_TIMEOUT, f"broker {broker_name} cannot be asked: {e}") from e
