"""Pulls a range of one queue as raw bytes, with the next answers under way meanwhile."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import uvloop

from pocketmq.client.instance.instance import ClientInstance
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import OperatingError, response_error
from pocketmq.protocol.messages.records import QUEUE_OFFSET_AT
from pocketmq.protocol.requests.offsets import MaxOffsetRequest
from pocketmq.protocol.requests.pulling import (
    PULL_SUBSCRIPTION,
    BulkPullRequest,
    BulkPullResponse,
    PullMessageRequest,
)
from pocketmq.spark.errors import DataLossError
from pocketmq.spark.filtering import ALL_MESSAGES, Expression
from pocketmq.spark.options import ReadOptions
from pocketmq.spark.reading.offsets import Range
from pocketmq.spark.retries import has_new_routes, once_led, retried
from pocketmq.spark.rows.parts import RecordPart, joined, sized_part

BULK_MESSAGES_MAX = 1_000_000
PLAIN_MESSAGES_MAX = 32
"""What a RocketMQ broker gives at once, by its defaults."""

PLAIN_PULLS_AHEAD = 8
"""Pulls under way together where each brings little."""

PART_SIZE_MIN = 1024 * 1024
"""Small answers are collected to this size: decoding has a cost for each part."""


class Answer(NamedTuple):
    """The answer to a pull."""

    code: int
    header: BulkPullResponse
    body: bytes


class RangePull:
    """Pulls the messages of a range.

    Args:
        instance: running.
        options: of the read.
        wanted: the range.
        expression: by which the broker filters.
    """

    def __init__(
        self,
        instance: ClientInstance,
        options: ReadOptions,
        wanted: Range,
        expression: Expression = ALL_MESSAGES,
    ) -> None:
        self._instance, self._options, self._wanted = instance, options, wanted
        self._expression = expression
        self._offset = wanted.start
        self._ahead: deque[tuple[int, asyncio.Task[Answer]]] = deque()
        self._is_bulk = False

    async def meet_broker(self) -> None:
        """Finds out whether the broker gives many messages at once.

        Raises:
            OperatingError: it cannot be reached.
        """
        await once_led(self._instance, [self._wanted.queue.topic], self._meet)

    async def _meet(self) -> None:
        queue = self._wanted.queue
        address, _ = await self._instance.routes.locate(queue)
        request = MaxOffsetRequest(topic=queue.topic, queue_id=queue.queue_id)
        await self._instance.pool.call(address, request, self._options.pull_timeout_ms)
        self._is_bulk = (await self._instance.pool.get(address)).peer_is_pocketmq

    async def next_part(self) -> RecordPart:
        """Returns the next messages of the range, perhaps with some behind it; empty at its end.

        Raises:
            DataLossError: messages are not there any more, and this is to be an error.
            OperatingError: the broker fails or refuses, whatever is tried.
        """
        parts: list[RecordPart] = []
        size = 0
        while self._offset < self._wanted.end and size < PART_SIZE_MIN:
            self._ask_ahead()
            _, task = self._ahead.popleft()
            answer = await task
            if answer.code == ResponseCode.SUCCESS:
                self._check_first(answer)
                parts.append(sized_part(answer.body, answer.header.size_count))
                size += len(answer.body)
                self._move_to(answer.header.next_begin_offset)
            elif parts:
                # An error comes after the messages before it are out.
                self._forget_ahead()
                break
            else:
                self._skip(answer)
        if self._offset < self._wanted.end:
            self._ask_ahead()
            # One iteration of the loop hands the requests to the system: the broker begins.
            await self._instance.clock.sleep(0)
        return joined(parts)

    def _check_first(self, answer: Answer) -> None:
        if not self._expression.takes_all:
            return  # a message that is filtered out looks like one that is deleted
        first = int.from_bytes(answer.body[QUEUE_OFFSET_AT : QUEUE_OFFSET_AT + 8], "big")
        if first > self._offset and self._options.fail_on_data_loss:
            wanted = self._wanted
            raise DataLossError(
                str(wanted.queue), self._offset, wanted.end, first, answer.header.max_offset
            )

    def _move_to(self, offset: int) -> None:
        if offset <= self._offset:
            raise OperatingError(
                f"{self._wanted.queue}: the broker gave messages from offset {self._offset} on and "
                f"says to continue at {offset}"
            )
        self._offset = offset
        if self._ahead and self._ahead[0][0] != offset:
            self._forget_ahead()

    def _skip(self, answer: Answer) -> None:
        """Goes on behind messages that are not there any more, if that is allowed."""
        wanted, header = self._wanted, answer.header
        self._forget_ahead()
        is_gone = answer.code != ResponseCode.PULL_RETRY_IMMEDIATELY
        if is_gone and self._options.fail_on_data_loss:
            raise DataLossError(
                str(wanted.queue), self._offset, wanted.end, header.min_offset, header.max_offset
            )
        following = header.next_begin_offset
        self._offset = following if following > self._offset else wanted.end

    def _ask_ahead(self) -> None:
        # How many messages a bulk pull brings shows only in its answer.
        most = 1 if self._is_bulk else PLAIN_PULLS_AHEAD
        offset = self._ahead[-1][0] + PLAIN_MESSAGES_MAX if self._ahead else self._offset
        while len(self._ahead) < most and offset < self._wanted.end:
            task = asyncio.get_running_loop().create_task(self._pull(offset))
            self._ahead.append((offset, task))
            offset += PLAIN_MESSAGES_MAX

    def _forget_ahead(self) -> None:
        for _, task in self._ahead:
            task.cancel()
        self._ahead.clear()

    async def _pull(self, offset: int) -> Answer:
        return await retried(
            self._instance.clock,
            self._options.retry_times_when_pull_failed,
            partial(self._attempt, offset),
        )

    async def _attempt(self, offset: int) -> Answer:
        try:
            return await self._ask(offset)
        except OperatingError as e:
            await has_new_routes(self._instance, [self._wanted.queue.topic], e)
            raise

    async def _ask(self, offset: int) -> Answer:
        queue, options = self._wanted.queue, self._options
        address, _ = await self._instance.routes.locate(queue)
        left = self._wanted.end - offset
        request: PullMessageRequest = (BulkPullRequest if self._is_bulk else PullMessageRequest)(
            consumer_group=options.consumer_group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=offset,
            max_msg_nums=min(left, BULK_MESSAGES_MAX if self._is_bulk else PLAIN_MESSAGES_MAX),
            sys_flag=PULL_SUBSCRIPTION,
            subscription=self._expression.text,
            expression_type=self._expression.kind,
            max_msg_bytes=options.max_msg_bytes if self._is_bulk else None,
        )
        if isinstance(request, BulkPullRequest):
            request.with_sizes = True
        answer = await self._instance.pool.call(address, request, options.pull_timeout_ms)
        if answer.code not in _KNOWN_CODES:
            raise response_error(answer.code, answer.remark, address)
        return Answer(answer.code, answer.read(BulkPullResponse), answer.body)


_KNOWN_CODES = frozenset(
    {
        ResponseCode.SUCCESS,
        ResponseCode.PULL_NOT_FOUND,
        ResponseCode.PULL_RETRY_IMMEDIATELY,
        ResponseCode.PULL_OFFSET_MOVED,
    }
)


def pulled_parts(
    options: ReadOptions, wanted: Range, expression: Expression = ALL_MESSAGES
) -> Iterator[RecordPart]:
    """Yields the messages of a range in parts, each as stored records back to back.

    Raises:
        DataLossError, OperatingError: see `RangePull.next_part`.
    """
    loop = uvloop.new_event_loop()
    instance = options.client()
    try:
        loop.run_until_complete(instance.start())
        pull = RangePull(instance, options, wanted, expression)
        loop.run_until_complete(pull.meet_broker())
        while part := loop.run_until_complete(pull.next_part()):
            yield part
    finally:
        loop.run_until_complete(instance.close())
        loop.run_until_complete(_cancel_others())
        loop.close()


async def _cancel_others() -> None:
    """Cancels the tasks that are still under way, as `asyncio.run` does."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
