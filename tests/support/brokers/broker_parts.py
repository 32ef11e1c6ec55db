"""A broker and its clients, over real connections on the loopback and under a virtual clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from support.peers.transport import until

from pocketmq.broker import Broker, BrokerConfig
from pocketmq.broker.store.disk.files import Files
from pocketmq.protocol.bodies.clients import (
    CLUSTERING,
    ConsumerData,
    Heartbeat,
    ProducerData,
    Subscription,
)
from pocketmq.protocol.bodies.topics import TopicOffset, TopicStatsTable
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.message import ReceivedMessage
from pocketmq.protocol.messages.records import decode_records, encode_record
from pocketmq.protocol.requests.clients import ConsumerIdsChangedRequest, HeartbeatRequest
from pocketmq.protocol.requests.offsets import MaxOffsetRequest, OffsetResponse
from pocketmq.protocol.requests.pulling import (
    PULL_SUBSCRIPTION,
    PULL_SUSPEND,
    PullMessageRequest,
    PullMessageResponse,
)
from pocketmq.protocol.requests.sending import (
    BulkAppendRequest,
    SendMessageResponse,
    SendMessageV2Request,
)
from pocketmq.protocol.requests.topics import CreateTopicRequest, TopicStatsRequest
from pocketmq.protocol.requests.transactions import CheckTransactionStateRequest
from pocketmq.protocol.wire.command import Command
from pocketmq.protocol.wire.header import RequestHeader
from pocketmq.testing.clock import VirtualClock
from pocketmq.transport.connection import Connection, Handler
from pocketmq.transport.pool import ConnectionPool

LOCALHOST = "127.0.0.1"
TOPIC = "TopicTest"
GROUP = "group-a"
TIMEOUT_MS = 3_600_000
"""Of the virtual clock: no call of these tests ends by it."""

SEGMENT_SIZE = 64 * 1024
"""The smallest there is."""


class Refusal(NamedTuple):
    """An answer other than success."""

    code: int
    remark: str


class Pulled(NamedTuple):
    """The answer of a pull."""

    code: int
    status: str | None
    header: PullMessageResponse
    messages: list[ReceivedMessage]

    @property
    def bodies(self) -> list[bytes]:
        """What the messages hold."""
        return [message.body for message in self.messages]

    @property
    def found(self) -> tuple[int, int]:
        """The code, and where the client goes on."""
        return self.code, self.header.next_begin_offset


class Check(NamedTuple):
    """A broker's question about a half message."""

    header: CheckTransactionStateRequest
    message: ReceivedMessage


def pulled(answer: Command) -> Pulled:
    """Takes the answer of a pull apart."""
    messages = list(decode_records(answer.body))
    return Pulled(answer.code, answer.remark, answer.read(PullMessageResponse), messages)


def send_request(**fields: Any) -> SendMessageV2Request:
    """A send of one message to queue 0, but for the fields given."""
    given: dict[str, Any] = {
        "producer_group": "producers",
        "topic": TOPIC,
        "default_topic": "TBW102",
        "default_topic_queue_nums": 4,
        "queue_id": 0,
        "born_timestamp": 1_699_999_999_000,
        "properties": "",
    }
    return SendMessageV2Request(**(given | fields))


def pull_request(offset: int = 0, **fields: Any) -> PullMessageRequest:
    """A pull of queue 0 that brings its own subscription, but for the fields given."""
    given: dict[str, Any] = {
        "consumer_group": GROUP,
        "topic": TOPIC,
        "queue_id": 0,
        "queue_offset": offset,
        "sys_flag": PULL_SUBSCRIPTION,
        "subscription": "*",
        "suspend_timeout_millis": 15_000,
    }
    return PullMessageRequest(**(given | fields))


def bulk_request(count: int, **fields: Any) -> BulkAppendRequest:
    """A bulk append to queue 0, but for the fields given."""
    given: dict[str, Any] = {
        "producer_group": "producers",
        "topic": TOPIC,
        "queue_id": 0,
        "count": count,
    }
    return BulkAppendRequest(**(given | fields))


def bulk_record(body: bytes = b"x", properties: bytes = b"", **fields: Any) -> bytes:
    """A ready-made record for queue 0, as a bulk append carries it, but for the fields given."""
    given: dict[str, Any] = {
        "topic": TOPIC.encode(),
        "queue_id": 0,
        "flag": 0,
        "queue_offset": 0,
        "physical_offset": 0,
        "sys_flag": 0,
        "born_timestamp": 1_699_999_999_000,
        "born_host": bytes(8),
        "store_timestamp": 0,
        "store_host": bytes(8),
        "reconsume_times": 0,
        "prepared_transaction_offset": 0,
        "body": body,
        "properties": properties,
    }
    return encode_record(**(given | fields))


def tagged(tags: str) -> str:
    """The properties of a message with a tag."""
    return props.encode({props.TAGS: tags})


class Client:
    """One client's connection to one broker, and what the broker tells it unasked.

    Attributes:
        notified: the groups whose members have changed, as 40 told.
        handlers: what it answers the broker, by request code.
        checks: the half messages that it was asked about, as 39 did.
    """

    def __init__(self, broker: Broker, clock: VirtualClock) -> None:
        self.broker = broker
        self.notified: list[str] = []
        self.checks: list[Check] = []
        self.handlers: dict[int, Handler] = {
            RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: self._members_changed,
            RequestCode.CHECK_TRANSACTION_STATE: self._check,
        }
        self.pool = ConnectionPool(clock, self.handlers)

    def _check(self, command: Command, _: Connection) -> None:
        assert command.is_oneway
        (message,) = decode_records(command.body)
        self.checks.append(Check(command.read(CheckTransactionStateRequest), message))

    def _members_changed(self, command: Command, _: Connection) -> None:
        assert command.is_oneway
        self.notified.append(command.read(ConsumerIdsChangedRequest).consumer_group)

    async def call(self, request: RequestHeader, body: bytes = b"") -> Command:
        """The answer, whatever its code."""
        return await self.pool.call(self.broker.address, request, TIMEOUT_MS, body)

    async def ask(self, request: RequestHeader, body: bytes = b"") -> Command:
        """The answer, which must be success."""
        return await self.pool.ask(self.broker.address, request, TIMEOUT_MS, body)

    async def refusal(self, request: RequestHeader, body: bytes = b"") -> Refusal:
        """The answer, which must not be success and must say why."""
        answer = await self.call(request, body)
        assert answer.code != 0, "it was not refused"
        assert answer.remark
        return Refusal(answer.code, answer.remark)

    async def send(self, body: bytes = b"x", **fields: Any) -> SendMessageResponse:
        """Sends a message, which must be stored."""
        return (await self.ask(send_request(**fields), body)).read(SendMessageResponse)

    async def pull(self, offset: int = 0, **fields: Any) -> Pulled:
        """Pulls once, without waiting for messages."""
        return pulled(await self.call(pull_request(offset, **fields)))

    async def everything(self, **fields: Any) -> list[ReceivedMessage]:
        """All messages of a queue, however many pulls that takes."""
        out: list[ReceivedMessage] = []
        part = await self.pull(**fields)
        while part.code in (0, 20):
            out += part.messages
            part = await self.pull(part.header.next_begin_offset, **fields)
        assert part.code == 19, part
        return out

    async def hold(self, offset: int = 0, **fields: Any) -> asyncio.Task[Pulled]:
        """Pulls until a message is there; returns when the broker holds the pull."""
        sys_flag = fields.pop("sys_flag", PULL_SUBSCRIPTION) | PULL_SUSPEND
        held = len(self.broker.parts.polling)
        task = asyncio.ensure_future(self.pull(offset, sys_flag=sys_flag, **fields))
        await until(lambda: len(self.broker.parts.polling) > held or task.done())
        assert not task.done(), task.result()
        return task

    async def create_topic(self, topic: str = TOPIC, read: int = 4, write: int = 4,
                           **fields: Any) -> None:  # fmt: skip
        """Creates or changes a topic, which must succeed."""
        given: dict[str, Any] = {
            "topic": topic,
            "read_queue_nums": read,
            "write_queue_nums": write,
            "perm": 6,
        }
        await self.ask(CreateTopicRequest(**(given | fields)))

    def make_group(self, *groups: str) -> None:
        """Groups as their first heartbeats make them."""
        for group in groups or (GROUP,):
            self.broker.groups.find(group)

    async def stats(self, topic: str = TOPIC) -> dict[int, TopicOffset]:
        """What each queue of a topic holds."""
        answer = await self.ask(TopicStatsRequest(topic=topic))
        table = TopicStatsTable.decode(answer.body).offset_table
        assert all(key.topic == topic for key in table)
        return {key.queue_id: offsets for key, offsets in table.items()}

    async def max_offset(self, queue_id: int = 0, topic: str = TOPIC) -> int:
        """Where a queue ends."""
        answer = await self.ask(MaxOffsetRequest(topic=topic, queue_id=queue_id))
        return answer.read(OffsetResponse).offset

    async def heartbeat(
        self,
        *subscriptions: Subscription,
        group: str = GROUP,
        client_id: str = "client-1",
        message_model: str = CLUSTERING,
        producer: str | None = None,
    ) -> None:
        """Says what the client wants, as one consumer group and perhaps one producer group."""
        consumer = ConsumerData(
            group_name=group,
            message_model=message_model,
            subscription_data_set=list(subscriptions),
        )
        data = Heartbeat(
            client_id=client_id,
            consumer_data_set=[consumer] if group else [],
            producer_data_set=[ProducerData(group_name=producer)] if producer else [],
        )
        await self.ask(HeartbeatRequest(), data.encode())

    async def close(self) -> None:
        """Closes the connection and waits until the broker has noticed."""
        connection = self.pool.peek(self.broker.address)
        count = len(self.broker.server.connections)
        await self.pool.close()
        if connection is not None:
            await until(lambda: len(self.broker.server.connections) < count)


class Stage:
    """Starts brokers and clients, and stops them in the end: ``async with Stage(...) as stage:``.

    Args:
        directory: for the brokers' data.
        clock: of everybody.
        seed: of the brokers' choices.
    """

    def __init__(self, directory: Path, clock: VirtualClock, seed: int) -> None:
        self.directory, self.clock, self.seed = directory, clock, seed
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Stage:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stack.aclose()

    def config(self, **settings: Any) -> BrokerConfig:
        """The settings of a broker on the loopback."""
        given: dict[str, Any] = {
            "listen_port": 0,
            "bind_address": LOCALHOST,
            "store_path_root_dir": str(self.directory / "store"),
            "disk_space_free_min": 0,  # however full the disk of the tests is
        }
        return BrokerConfig(**(given | settings))

    async def broker(
        self,
        *,
        files: Files | None = None,
        seed: int | None = None,
        clock: VirtualClock | None = None,
        **settings: Any,
    ) -> Broker:
        """A running broker."""
        seed = self.seed if seed is None else seed
        broker = Broker(self.config(**settings), clock or self.clock, files=files, seed=seed)
        return await self._stack.enter_async_context(broker)

    def client(self, broker: Broker) -> Client:
        """A client of a broker."""
        client = Client(broker, self.clock)
        self._stack.push_async_callback(client.pool.close)
        return client

    async def start(
        self, *, files: Files | None = None, seed: int | None = None, **settings: Any
    ) -> Client:
        """A client of a broker that is started for it."""
        return self.client(await self.broker(files=files, seed=seed, **settings))

    async def started_with_topic(
        self,
        topic: str = TOPIC,
        queues: int = 4,
        *,
        files: Files | None = None,
        **settings: Any,
    ) -> Client:
        """The same, and the broker has a topic."""
        client = await self.start(files=files, **settings)
        await client.create_topic(topic, queues, queues)
        return client


async def advance_until(
    clock: VirtualClock, condition: Callable[[], object], step_s: float = 1.0
) -> None:
    """Moves time forward until something has come true."""
    for _ in range(1000):
        if condition():
            return
        await clock.advance(step_s)
    raise AssertionError("it did not come true")
