"""Transactions as a producer's requests make them, and what a broker has of them."""

from __future__ import annotations

from typing import Any, NamedTuple

from support.brokers.broker_parts import TOPIC, Check, Client, send_request

from pocketmq.broker import Broker
from pocketmq.protocol import flags
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.ids import parse_offset_msg_id
from pocketmq.protocol.messages.message import ReceivedMessage
from pocketmq.protocol.messages.records import decode_records
from pocketmq.protocol.names import names
from pocketmq.protocol.requests.sending import SendMessageResponse, SendMessageV2Request
from pocketmq.protocol.requests.transactions import EndTransactionRequest
from pocketmq.protocol.wire.command import Command
from pocketmq.protocol.wire.header import RequestHeader
from pocketmq.testing.clock import VirtualClock

PRODUCERS = "transactional"
COMMIT, ROLLBACK = flags.TRANSACTION_COMMIT, flags.TRANSACTION_ROLLBACK

QUIET: dict[str, Any] = {
    "connection_idle_timeout": 86_400_000,
    "channel_expired_timeout": 86_400_000,
    "flush_interval_commit_log": 600_000,
    "flush_delay_offset_interval": 600_000,
    "flush_consumer_offset_interval": 600_000,
    "clean_resource_interval": 3_600_000,
}
"""Settings with which little happens by itself, so that minutes pass quickly."""


class Half(NamedTuple):
    """A half message as its producer knows it."""

    offset: int
    place: int
    unique_key: str

    def end(
        self, decision: int, *, from_check: bool = False, **fields: Any
    ) -> EndTransactionRequest:
        """The decision on it."""
        given: dict[str, Any] = {
            "topic": TOPIC,
            "producer_group": PRODUCERS,
            "tran_state_table_offset": self.offset,
            "commit_log_offset": self.place,
            "commit_or_rollback": decision,
            "from_transaction_check": from_check,
            "msg_id": self.unique_key,
            "transaction_id": self.unique_key,
        }
        return EndTransactionRequest(**(given | fields))


def half_request(clock: VirtualClock, queue_id: int = 0, **properties: str) -> SendMessageV2Request:
    """A transactional message that is born now."""
    given = {props.TRANSACTION_PREPARED: "true", props.PRODUCER_GROUP: PRODUCERS}
    return send_request(
        queue_id=queue_id,
        sys_flag=flags.TRANSACTION_PREPARED,
        born_timestamp=clock.now_ms(),
        properties=props.encode(given | properties),
    )


async def send_half(
    client: Client, clock: VirtualClock, body: bytes = b"x", queue_id: int = 0, **properties: str
) -> Half:
    """Sends a transactional message, which must be stored."""
    answer = await client.ask(half_request(clock, queue_id, **properties), body)
    stored = answer.read(SendMessageResponse)
    assert stored.transaction_id
    place = parse_offset_msg_id(stored.msg_id).physical_offset
    return Half(stored.queue_offset, place, stored.transaction_id)


def command_of(request: RequestHeader) -> Command:
    """The request as a command, for what the pool cannot ask."""
    return Command(request.code, header=request)


def asked(check: Check) -> Half:
    """The half message that a check is about, as a producer answers it."""
    header = check.header
    assert header.topic == names.HALF_TOPIC
    assert header.transaction_id == header.msg_id
    assert header.offset_msg_id
    assert parse_offset_msg_id(header.offset_msg_id).physical_offset == header.commit_log_offset
    return Half(header.tran_state_table_offset, header.commit_log_offset, header.msg_id or "")


def in_log(broker: Broker, topic: str = TOPIC, queue_id: int = 0) -> list[ReceivedMessage]:
    """Everything that a queue holds, read past the wire."""
    queue_log = broker.store.find_log(topic, queue_id)
    out: list[ReceivedMessage] = []
    while queue_log is not None and queue_log.min_offset + len(out) < queue_log.max_offset:
        part = queue_log.read(queue_log.min_offset + len(out), 1000, 1 << 24)
        out += decode_records(part.data)
    return out


def bodies(broker: Broker, topic: str = TOPIC, queue_id: int = 0) -> list[bytes]:
    """The bodies of everything in one queue."""
    return [message.body for message in in_log(broker, topic, queue_id)]


def open_bodies(broker: Broker) -> list[bytes]:
    """The bodies of the half messages that are open."""
    transactions = broker.parts.transactions
    transactions.grow()
    half = in_log(broker, names.HALF_TOPIC)
    ledger = transactions.half_states
    return [m.body for m in half if ledger.next_open(m.queue_offset, m.queue_offset + 1, 1)]
