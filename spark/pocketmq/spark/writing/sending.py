"""Sends chunks of encoded messages of one task until brokers have stored them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pocketmq.client.errors import Attempt, SendFailedError
from pocketmq.client.fault_strategy import (
    ISOLATION_LATENCY_MS,
    FaultStrategy,
    FaultTable,
    LatencyFaultTolerance,
)
from pocketmq.client.instance.instance import ClientInstance
from pocketmq.client.queue_ring import QueueRing
from pocketmq.client.results import SEND_STATUS_BY_CODE, SendStatus
from pocketmq.protocol.errors import OperatingError, response_error
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.messages.record_columns import RECORD_SIZES
from pocketmq.protocol.requests.offsets import MaxOffsetRequest
from pocketmq.protocol.requests.sending import (
    BulkAppendRequest,
    BulkAppendResponse,
    SendBatchRequest,
    SendMessageResponse,
)
from pocketmq.protocol.wire.header import RequestHeader
from pocketmq.spark.marked.commits import OffsetRanges
from pocketmq.spark.options import WriteOptions
from pocketmq.spark.retries import PAUSE_S, PAUSE_S_MAX, has_new_routes, is_final, once_led
from pocketmq.spark.rows.encoding import Encoded, with_queue_id

BULK_FAULT_TABLE = FaultTable((ISOLATION_LATENCY_MS,), (10,))
"""Large requests take long without fault: only a broker that failed is left out, for 10 s."""

PEER_TIMEOUT_MS = 5_000
_BATCH_PROPERTIES = props.encode({props.WAIT: "true"})


class Chunk(NamedTuple):
    """Messages for one queue.

    Attributes:
        queue: its index.
        messages: encoded as the queue's broker takes them.
        is_bound: they must go to this queue, and in order; otherwise another one would do.
    """

    queue: int
    messages: Encoded
    is_bound: bool


class Sent(NamedTuple):
    """What was stored.

    Attributes:
        rows_by_queue: how many rows.
        unconfirmed_rows: rows that are stored, but not yet flushed or replicated as the broker is
            configured.
        written: the offsets of the rows of a marked write.
    """

    rows_by_queue: Counter[MessageQueue]
    unconfirmed_rows: int
    written: OffsetRanges


class BulkSender:
    """Sends the chunks of one topic, for one Spark task.

    A PocketMQ broker takes ready-made records, others the ordinary batches of clients.

    Args:
        instance: running.
        options: of the write.
        queues: all that may be written.
    """

    def __init__(
        self, instance: ClientInstance, options: WriteOptions, queues: Sequence[MessageQueue]
    ) -> None:
        self.queues = tuple(queues)
        self._instance, self._options = instance, options
        tolerance = LatencyFaultTolerance(instance.clock.monotonic)
        self._strategy = FaultStrategy(tolerance, BULK_FAULT_TABLE, enabled=True)
        self._takes_records: dict[str, bool] = {}
        self._rings: dict[bool, QueueRing] = {}
        self._in_order = [asyncio.Lock() for _ in queues]
        self._rows: Counter[MessageQueue] = Counter()
        self._unconfirmed_rows = 0
        self._written: OffsetRanges = {}

    async def meet_brokers(self) -> None:
        """Finds out which brokers can be reached, and which of them take records.

        Raises:
            OperatingError: none of them can be reached.
        """
        await once_led(self._instance, [self._options.topic], self._meet_brokers)

    async def _meet_brokers(self) -> None:
        await self._instance.routes.publish_route(self._options.topic)
        names = list(dict.fromkeys(q.broker_name for q in self.queues))
        met = await asyncio.gather(*map(self._meet, names), return_exceptions=True)
        failures = []
        for name, peer in zip(names, met, strict=True):
            if isinstance(peer, OperatingError):
                self._strategy.observe(name, 0.0, isolate=True)
                failures.append(peer)
            elif isinstance(peer, BaseException):
                raise peer
            else:
                self._takes_records[name] = peer
        if len(failures) == len(names):
            raise failures[0]
        for kind in (True, False):
            same = [q for q in self.queues if self._takes_records.get(q.broker_name) is kind]
            if same:
                self._rings[kind] = QueueRing(same)

    async def _meet(self, broker_name: str) -> bool:
        queue = next(q for q in self.queues if q.broker_name == broker_name)
        address = await self._instance.routes.master_of(queue)
        request = MaxOffsetRequest(topic=queue.topic, queue_id=queue.queue_id)
        # The first answer shows whether the peer is PocketMQ, whatever else it says.
        await self._instance.pool.call(address, request, PEER_TIMEOUT_MS)
        return (await self._instance.pool.get(address)).peer_is_pocketmq

    def takes_records(self, queue: int) -> bool:
        """Whether the broker of a queue takes records; of one that is down that is not known."""
        return self._takes_records.get(self.queues[queue].broker_name, False)

    def usable_queues(self) -> list[int]:
        """Returns the queues of brokers that did not fail lately; of all met ones if all failed."""
        met = [i for i, q in enumerate(self.queues) if q.broker_name in self._takes_records]
        is_available = self._strategy.tolerance.is_available
        usable = [i for i in met if is_available(self.queues[i].broker_name)]
        return usable or met

    @property
    def sent(self) -> Sent:
        """What is stored by now."""
        return Sent(self._rows, self._unconfirmed_rows, self._written)

    async def send(self, chunk: Chunk) -> None:
        """Sends until a broker has stored the chunk.

        Raises:
            SendFailedError: no attempt succeeded.
            ResponseError: the broker refuses these messages, and would do so again.
        """
        if chunk.is_bound:
            async with self._in_order[chunk.queue]:
                await self._send(chunk)
        else:
            await self._send(chunk)

    async def _send(self, chunk: Chunk) -> None:
        clock = self._instance.clock
        queue, messages = self.queues[chunk.queue], chunk.messages
        is_record = self.takes_records(chunk.queue)
        started = clock.monotonic()
        attempts: list[Attempt] = []
        pause_s = PAUSE_S
        while True:
            begun = clock.monotonic()
            try:
                status, offset = await self._attempt(queue, messages, is_record)
            except OperatingError as e:
                self._strategy.observe(queue.broker_name, 0.0, isolate=True)
                if is_final(e):
                    raise
                attempts.append(Attempt(queue.broker_name, e))
                await has_new_routes(self._instance, [queue.topic], e)
            else:
                self._strategy.observe(queue.broker_name, (clock.monotonic() - begun) * 1000)
                self._rows[queue] += messages.rows
                if self._options.is_marked:
                    pairs = self._written.setdefault(queue, [])
                    pairs.append((offset, offset + messages.rows))
                if status is not SendStatus.SEND_OK:
                    self._unconfirmed_rows += messages.rows
                return
            if len(attempts) > self._options.retry_times_when_send_failed:
                elapsed_ms = (clock.monotonic() - started) * 1000
                raise SendFailedError(queue.topic, attempts, elapsed_ms) from attempts[-1].error
            await clock.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_S_MAX)
            ring = self._rings.get(is_record)
            if not chunk.is_bound and ring is not None:
                queue = self._strategy.select(ring, queue.broker_name)
                if is_record:
                    messages = with_queue_id(chunk.messages, queue.queue_id)

    async def _attempt(
        self, queue: MessageQueue, messages: Encoded, is_record: bool
    ) -> tuple[SendStatus, int]:
        address = await self._instance.routes.master_of(queue)
        request, body = (self._bulk if is_record else self._batch)(queue, messages)
        answer = await self._instance.pool.call(
            address, request, self._options.send_timeout_ms, body
        )
        status = SEND_STATUS_BY_CODE.get(answer.code)
        if status is None:
            raise response_error(answer.code, answer.remark, address)
        if is_record:
            return status, answer.read(BulkAppendResponse).queue_offset
        return status, answer.read(SendMessageResponse).queue_offset

    def _bulk(self, queue: MessageQueue, messages: Encoded) -> tuple[RequestHeader, bytes]:
        header = BulkAppendRequest(
            producer_group=self._options.producer_group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            count=messages.rows,
            sizes=True,
        )
        sizes = np.diff(messages.ends).astype(RECORD_SIZES)
        return header, b"".join((messages.data, sizes.data))

    def _batch(self, queue: MessageQueue, messages: Encoded) -> tuple[RequestHeader, bytes]:
        header = SendBatchRequest(
            producer_group=self._options.producer_group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            born_timestamp=self._instance.clock.now_ms(),
            properties=_BATCH_PROPERTIES,
            broker_name=queue.broker_name,
            batch=True,
        )
        return header, bytes(messages.data)
