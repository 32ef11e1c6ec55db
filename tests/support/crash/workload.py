"""What clients do to a broker, as a seed decides, and what they write into their book."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from support.brokers.broker_parts import Client, bulk_record, bulk_request, send_request
from support.brokers.transaction_parts import (
    COMMIT,
    PRODUCERS,
    ROLLBACK,
    Half,
    half_request,
    in_log,
)
from support.crash.book import HALF, PLAIN, RETRY, WAITING, Book, Commit, Entry, Logs, Mark, Queue
from support.crash.memory_loop import MemoryLoop
from support.crash.simulated_disk import SimulatedDisk

from pocketmq.broker import Broker
from pocketmq.broker.store.disk.errors import StoreError
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.batch import BatchEntry, encode_batch
from pocketmq.protocol.messages.ids import parse_offset_msg_id
from pocketmq.protocol.messages.records import decode_records
from pocketmq.protocol.names import names
from pocketmq.protocol.requests.consuming import ConsumerSendMsgBackRequest
from pocketmq.protocol.requests.offsets import UpdateConsumerOffsetRequest
from pocketmq.protocol.requests.sending import (
    BulkAppendResponse,
    RecallMessageRequest,
    SendBatchRequest,
    SendMessageResponse,
)
from pocketmq.protocol.requests.topics import CreateTopicRequest, DeleteTopicRequest
from pocketmq.protocol.requests.transactions import CheckTransactionStateRequest
from pocketmq.protocol.wire.command import Command
from pocketmq.protocol.wire.header import RequestHeader
from pocketmq.testing.clock import VirtualClock, settle
from pocketmq.transport.connection import Connection

TOPIC, DOOMED, LATER, DEALS = "Plain", "Doomed", "Later", "Deals"
GROUP = "group-a"
QUEUES_MAX = 5
KEYS = 5
BODY_SIZE_MAX = 400
TURNS_MAX = 20_000
KEEP_MS = 10**12


def logs_of(broker: Broker) -> Logs:
    """Everything that a broker's own logs hold, but for queues that it cannot serve."""
    return {queue: in_log(broker, *queue) for queue in queues_of(broker) if _is_open(broker, queue)}


def _is_open(broker: Broker, queue: Queue) -> bool:
    try:
        return broker.store.log_if_sound(*queue) is not None
    except OSError:
        return False  # there was no room to recover it: it is tried again


def queues_of(broker: Broker) -> list[Queue]:
    """The queues that were ever written to."""
    return sorted((known.topic, known.queue_id) for known in broker.store.logs.table)


def unserved_queues(broker: Broker, logs: Logs) -> set[Queue]:
    """The queues that the broker could not serve when it was asked for its logs."""
    return set(queues_of(broker)) - logs.keys()


class Workload:
    """Clients of one broker.

    Args:
        chance: decides what they do.
        broker, loop, disk, clock: theirs.
        book: what they know.
        name: that no other run of the same book has.
    """

    def __init__(
        self,
        chance: random.Random,
        broker: Broker,
        loop: MemoryLoop,
        disk: SimulatedDisk,
        clock: VirtualClock,
        book: Book,
        name: str,
    ) -> None:
        self._chance, self.broker, self._loop, self._disk = chance, broker, loop, disk
        self._clock, self.book, self._name = clock, book, name
        self.client = Client(broker, clock)
        self.client.handlers[RequestCode.CHECK_TRANSACTION_STATE] = self._answer_check
        self._count = 0
        self._open: list[tuple[Entry, Half]] = []
        self._recallable: list[tuple[Entry, str]] = []
        self._answers: set[asyncio.Task[None]] = set()
        self.refused = 0

    # -- requests -----------------------------------------------------------------------------

    def _body(self) -> bytes:
        self._count += 1
        head = b"%s/%d/" % (self._name.encode(), self._count)
        return head + bytes(self._chance.randrange(BODY_SIZE_MAX))

    async def _ask(self, request: RequestHeader, body: bytes = b"") -> tuple[Command, int] | None:
        """The answer, if it is success, and behind how many ops it was given."""
        answer = await self.client.call(request, body)
        position = self._loop.answered_at.pop(answer.opaque)
        if answer.code != 0:
            assert answer.remark, "a refusal without a reason"
            self.refused += 1
            return None
        return answer, position

    def _entry(self, kind: str, topic: str, queue_id: int, **fields: Any) -> Entry:
        body = fields.pop("body", None) or self._body()
        return self.book.add(Entry(body, kind, topic, queue_id, self._disk.position, **fields))

    async def _send(
        self, entry: Entry, properties: str, topic: str = ""
    ) -> SendMessageResponse | None:
        request = send_request(
            topic=topic or entry.topic, queue_id=entry.queue_id, properties=properties
        )
        answered = await self._ask(request, entry.body)
        if answered is None:
            return None
        answer, entry.acked = answered
        return answer.read(SendMessageResponse)

    def _queue_of(self, topic: str) -> int:
        config = self.broker.topics.get(topic)
        return self._chance.randrange(config.write_queue_nums if config else 1)

    async def send(self) -> None:
        topic = self._chance.choice([TOPIC, TOPIC, TOPIC, DOOMED])
        waits = self._chance.random() < 0.9
        entry = self._entry(PLAIN, topic, self._queue_of(topic), wants_flush=waits)
        given = {props.TAGS: "t", props.KEYS: f"k{self._count % KEYS}"}
        if not waits:
            given[props.WAIT] = "false"
        answer = await self._send(entry, props.encode(given))
        if answer is not None:
            assert answer.queue_id == entry.queue_id
            entry.offset = answer.queue_offset
            entry.place = parse_offset_msg_id(answer.msg_id).physical_offset

    async def send_batch(self) -> None:
        queue_id = self._queue_of(TOPIC)
        entries = [self._entry(PLAIN, TOPIC, queue_id) for _ in range(self._chance.randrange(1, 5))]
        request = SendBatchRequest(
            producer_group="p", topic=TOPIC, default_topic="TBW102", default_topic_queue_nums=4,
            queue_id=queue_id, born_timestamp=1, properties="", batch=True,
        )  # fmt: skip
        body = encode_batch([BatchEntry(0, entry.body, b"") for entry in entries])
        answered = await self._ask(request, body)
        if answered is not None:
            first = answered[0].read(SendMessageResponse).queue_offset
            for index, entry in enumerate(entries):
                entry.acked, entry.offset = answered[1], first + index

    async def send_bulk(self) -> None:
        queue_id = self._queue_of(TOPIC)
        entries = [self._entry(PLAIN, TOPIC, queue_id) for _ in range(self._chance.randrange(1, 5))]
        records = b"".join(
            bulk_record(e.body, topic=TOPIC.encode(), queue_id=queue_id) for e in entries
        )
        request = bulk_request(len(entries), topic=TOPIC, queue_id=queue_id)
        answered = await self._ask(request, records)
        if answered is not None:
            first = answered[0].read(BulkAppendResponse).queue_offset
            for index, entry in enumerate(entries):
                entry.acked, entry.offset = answered[1], first + index

    async def delay(self) -> None:
        level = self._chance.randint(1, 3)
        due_ms = self._clock.now_ms() + level * 1000
        entry = self._entry(WAITING, LATER, 0, due_ms=due_ms)
        await self._send(entry, props.encode({props.DELAY: str(level)}))

    async def timer(self) -> None:
        delay_ms = self._chance.randrange(300, 4000)
        due_ms = self._clock.now_ms() + delay_ms
        entry = self._entry(WAITING, LATER, 1, due_ms=due_ms)
        answer = await self._send(entry, props.encode({props.TIMER_DELIVER_MS: str(due_ms)}))
        if answer is not None and answer.recall_handle:
            self._recallable.append((entry, answer.recall_handle))

    async def recall(self) -> None:
        now = self._clock.now_ms()
        ready = [(e, handle) for e, handle in self._recallable if e.due_ms > now + 1000]
        if not ready:
            return
        entry, handle = self._chance.choice(ready)
        self._recallable.remove((entry, handle))
        entry.recall_since = self._disk.position
        answered = await self._ask(RecallMessageRequest(topic=LATER, recall_handle=handle))
        if answered is not None:
            entry.recalled = answered[1]

    async def retry(self) -> None:
        topic = names.retry_topic(GROUP)
        ready = [
            e
            for e in self.book.of_kind(PLAIN)
            if e.place >= 0 and e.topic == TOPIC and (topic, e.body) not in self.book.entries
        ]
        if not ready:
            return
        source = self._chance.choice(ready)
        level = self._chance.randint(1, 2)
        due_ms = self._clock.now_ms() + level * 1000
        entry = self._entry(RETRY, topic, 0, body=source.body, due_ms=due_ms)
        answered = await self._ask(
            ConsumerSendMsgBackRequest(offset=source.place, group=GROUP, delay_level=level)
        )
        if answered is not None:
            entry.acked = answered[1]

    async def half(self) -> None:
        decision = self._chance.choice([COMMIT, COMMIT, ROLLBACK])
        entry = self._entry(HALF, DEALS, 0, decision=decision)
        request = half_request(self._clock)
        request.topic = DEALS
        answered = await self._ask(request, entry.body)
        if answered is not None:
            answer, entry.acked = answered
            stored = answer.read(SendMessageResponse)
            place = parse_offset_msg_id(stored.msg_id).physical_offset
            half = Half(stored.queue_offset, place, stored.transaction_id or "")
            self._open.append((entry, half))

    async def end(self) -> None:
        if not self._open:
            return
        entry, half = self._open.pop(self._chance.randrange(len(self._open)))
        answered = await self._ask(half.end(entry.decision, topic=DEALS))
        if answered is not None:
            entry.ended = answered[1]

    def _answer_check(self, command: Command, connection: Connection) -> None:
        header = command.read(CheckTransactionStateRequest)
        (message,) = decode_records(command.body)
        entry = self.book.entries[DEALS, message.body]
        half = Half(header.tran_state_table_offset, header.commit_log_offset, header.msg_id or "")
        request = half.end(entry.decision, topic=DEALS, from_check=True)
        task = self._loop.create_task(connection.oneway(Command(request.code, header=request)))
        self._answers.add(task)
        task.add_done_callback(self._answers.discard)

    async def commit_offset(self) -> None:
        queue_id = self._queue_of(TOPIC)
        if not _is_open(self.broker, (TOPIC, queue_id)):
            return
        queue_log = self.broker.store.log_if_sound(TOPIC, queue_id)
        if queue_log is None or queue_log.max_offset == queue_log.min_offset:
            return
        commits = self.book.commits.setdefault((TOPIC, queue_id), [])
        # A consumer may have everything that can be pulled, also what no disk has yet.
        low = max([queue_log.min_offset, *(c.offset for c in commits)])
        if low > queue_log.max_offset:
            return
        offset = self._chance.randint(low, queue_log.max_offset)
        index, since = len(commits), self._disk.position
        commits.append(Commit(since, None, offset))
        request = UpdateConsumerOffsetRequest(
            consumer_group=GROUP, topic=TOPIC, queue_id=queue_id, commit_offset=offset
        )
        answered = await self._ask(request)
        if answered is not None:
            commits[index] = Commit(since, answered[1], offset)

    # -- what happens alone -------------------------------------------------------------------

    async def create_topics(self) -> None:
        """Those that are missing; also again after a crash."""
        for topic, queues in ((TOPIC, 2), (LATER, 2), (DEALS, 1), (DOOMED, 2)):
            if topic not in self.broker.topics:
                await self._create(topic, queues)

    async def _create(self, topic: str, queues: int) -> None:
        await self._ask(
            CreateTopicRequest(topic=topic, read_queue_nums=queues, write_queue_nums=queues, perm=6)
        )

    async def expand(self) -> None:
        config = self.broker.topics.get(TOPIC)
        if config is not None and config.write_queue_nums < QUEUES_MAX:
            await self._create(TOPIC, config.write_queue_nums + 1)

    async def delete(self) -> None:
        victims = [e for e in self.book.entries.values() if e.topic == DOOMED]
        for entry in victims:
            if entry.deleted_since is None:
                entry.deleted_since = self._disk.position
        answered = await self._ask(DeleteTopicRequest(topic=DOOMED))
        if answered is not None:
            for entry in victims:
                entry.deleted = entry.deleted or answered[1]
        # One that could not be deleted may have more queues than it began with: they keep theirs.
        if self._chance.random() < 0.7 and DOOMED not in self.broker.topics:
            await self._create(DOOMED, 2)

    async def expire(self) -> None:
        """Retention of what is older than a moment."""
        before, since = logs_of(self.broker), self._disk.position
        self.broker.parts.retention.reserved_ms.replace(self._chance.randrange(3000))
        try:
            await self.broker.parts.retention.run()
        except (OSError, StoreError):
            assert self._disk.hit
        finally:
            self.broker.parts.retention.reserved_ms.replace(KEEP_MS)
        after = logs_of(self.broker)
        for queue, messages in before.items():
            if queue not in after:
                continue
            # Of what came twice the first may be gone, and nobody has promised the second.
            gone = Counter(m.body for m in messages) - Counter(m.body for m in after[queue])
            for body in gone:
                entry = self.book.entries.get((queue[0], body))
                if entry is not None:
                    entry.expired = entry.expired or since

    async def pass_time(self) -> None:
        await self._clock.advance(self._chance.choice([0.01, 0.1, 0.3, 1.0]))

    async def rest(self) -> None:
        """So long that everything is brought to the disk."""
        start, before = self._disk.position, logs_of(self.broker)
        healthy = not self._disk.hit
        await self._clock.advance(2.0)
        if healthy and not self._disk.hit:
            self.book.marks.append(Mark(start, self._disk.position))
            for (topic, _), messages in before.items():
                for message in messages:
                    entry = self.book.entries.get((topic, message.body))
                    if entry is not None and entry.settled is None:
                        entry.settled = self._disk.position

    # -- the run ------------------------------------------------------------------------------

    async def _together(self, *actions: Callable[[], Awaitable[None]]) -> None:
        tasks = [asyncio.ensure_future(action()) for action in actions]
        for _ in range(TURNS_MAX):
            if all(task.done() for task in tasks):
                for task in tasks:
                    task.result()
                return
            await settle(1)
        raise AssertionError("a request was not answered")

    async def begin(self) -> None:
        self.broker.parts.retention.reserved_ms.replace(KEEP_MS)
        await self.client.heartbeat(group="", producer=PRODUCERS)
        await self._together(self.create_topics)

    async def run(self, steps: int) -> None:
        """So many steps, each of some requests at once."""
        alone = [self.expand, self.delete, self.expire, self.pass_time, self.pass_time,
                 self.pass_time, self.rest]  # fmt: skip
        many = [self.send] * 6 + [
            self.send_batch, self.send_bulk, self.delay, self.timer, self.recall, self.retry,
            self.half, self.end, self.end, self.commit_offset,
        ]  # fmt: skip
        for _ in range(steps):
            if self._chance.random() < 0.3:
                await self._together(self._chance.choice(alone))
            else:
                count = self._chance.randint(1, 5)
                await self._together(*self._chance.choices(many, k=count))
