"""Pops, and peeks: 200050, 200052 (`broker/processor/PopMessageProcessor`)."""

from __future__ import annotations

from collections.abc import Sequence

from pocketmq.broker.handlers.popping.checks import PopChecks
from pocketmq.broker.popping.pop_queues import PopQueue, PopQueues
from pocketmq.broker.popping.taking import PoppedMessages, PopQuery, Taking
from pocketmq.broker.popping.waiting import PopWaiting, key_of
from pocketmq.broker.reading.filters import SelectionShare
from pocketmq.broker.refusals import store_failure, unavailable
from pocketmq.broker.store.disk.errors import StoreError
from pocketmq.broker.store.store import MessageStore
from pocketmq.broker.work_share import WorkShare
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.errors import OperatingError
from pocketmq.protocol.messages.receipts import (
    ORDER_REVIVE_QID,
    encode_offsets,
    encode_order_counts,
    encode_start_offsets,
)
from pocketmq.protocol.requests.popping import (
    PeekMessageRequest,
    PopMessageRequest,
    PopMessageResponse,
)
from pocketmq.protocol.wire.command import Command
from pocketmq.runtime.clock import Clock
from pocketmq.transport.connection import Connection, Handler, Reply
from pocketmq.transport.reading_state import Hold

POLL_MS_MAX = 600_000
"""A pop waits no longer, whatever it asks for."""

INVISIBLE_MS_MAX = 30 * 86_400_000
"""A message is invisible no longer."""

NOTHING = "NO_MESSAGE_IN_QUEUE"


class _Pop(PopQuery, eq=False, kw_only=True):
    """A pop that passed the checks (a `WaitingPop`)."""

    handlers: PopHandlers
    command: Command
    connection: Connection
    poll_ms: int = 0
    end_tick: int = 0
    offset: int = 0

    @property
    def topic_name(self) -> str:
        """Under which it is held."""
        return key_of(self.group, self.topic.topic_name)

    @property
    def origin_topic(self) -> str:
        """The topic that it asks for."""
        return self.topic.topic_name

    def wake(self) -> bool:
        return not self.connection.awaits(self.command) or self.handlers.answer_later(self)

    def expire(self) -> None:
        if self.connection.awaits(self.command):
            self.handlers.answer_at_last(self)


class _Answer:
    """Answers a pop once the journal has what it took; else the messages come to others."""

    def __init__(self, pop: _Pop, queues: PopQueues, clock: Clock) -> None:
        self._pop, self._queues, self._clock = pop, queues, clock
        self.found: PoppedMessages | None = None
        self.left = 0
        self._error: OperatingError | None = None

    def expect(self, found: PoppedMessages) -> None:
        """Waits for as many events of the journal as queues were read."""
        self.found, self.left = found, len(found.parts)

    def written(self, error: OperatingError | None) -> None:
        """One more event is in the journal, or could not be written."""
        self.left -= 1
        self._error = self._error or error
        if self.left:
            return
        assert self.found is not None
        pop = self._pop
        if self._error is not None:
            pop.connection.refuse(pop.command, *store_failure(self._error))
        elif pop.connection.awaits(pop.command):
            pop.connection.respond(pop.command, _answer(pop, self.found))
            return
        for queue, offsets in self.found.taken:
            self._give_back(queue, offsets)

    def _give_back(self, queue: PopQueue, offsets: Sequence[int]) -> None:
        """Nobody got them: others may have them at once, and it counts as no attempt."""
        now_ms = self._clock.now_ms()
        for offset in offsets:
            self._queues.renew(queue, offset, now_ms, now_ms, lambda _: None, is_suspended=True)


class PopHandlers:
    """Answers pops, and holds those that find nothing.

    Args:
        checks: of pops.
        taking: takes messages.
        queues: what is in flight.
        waiting: where pops are held.
        selections: makes the selections of filters.
        store, clock: of the broker.
        share: the work of a turn.
    """

    def __init__(
        self,
        checks: PopChecks,
        taking: Taking,
        queues: PopQueues,
        waiting: PopWaiting,
        selections: SelectionShare,
        store: MessageStore,
        clock: Clock,
        share: WorkShare,
    ) -> None:
        self._checks, self._taking, self._queues, self._waiting = checks, taking, queues, waiting
        self._selections, self._store, self._clock, self._share = selections, store, clock, share

    def table(self) -> dict[int, Handler]:
        """The handlers by request code."""
        return {RequestCode.POP_MESSAGE: self.pop, RequestCode.PEEK_MESSAGE: self.peek}

    def pop(self, command: Command, connection: Connection) -> Reply:
        """200050."""
        request = command.read(PopMessageRequest)
        topic = self._checks.check(
            connection,
            request.consumer_group,
            request.topic,
            request.queue_id,
            born_ms=request.born_time,
            poll_ms=request.poll_time,
            count=request.max_msg_nums,
        )
        pop = _Pop(
            group=request.consumer_group,
            topic=topic,
            queue_id=request.queue_id,
            count_max=max(request.max_msg_nums, 1),
            invisible_ms=min(max(request.invisible_time, 0), INVISIBLE_MS_MAX),
            init_mode=request.init_mode,
            is_ordered=bool(request.order),
            attempt_id=request.attempt_id or "",
            handlers=self,
            command=command,
            connection=connection,
            poll_ms=min(request.poll_time, POLL_MS_MAX),
        )
        if request.exp:
            selection = self._selections.selection_now(
                request.exp_type, request.exp, sql_enabled=self._checks.sql_enabled
            )
            if selection is None:
                connection.hold_reading(Hold.WORK_SHARE)
                return self._begin_in_turn(pop, request.exp_type, request.exp)
            pop.selection = selection
        return self._begin(pop)

    async def _begin_in_turn(self, pop: _Pop, kind: str | None, text: str) -> Command | None:
        """Begins a pop when less is read, so that the loop is not held up."""
        try:
            pop.selection = await self._selections.selection_in_turn(
                kind, text, sql_enabled=self._checks.sql_enabled
            )
            return self._begin(pop)
        finally:
            pop.connection.release_reading(Hold.WORK_SHARE)

    def _begin(self, pop: _Pop) -> Command | None:
        """Takes what there is now; holds the pop if that is nothing and the client will wait."""
        if self._store.refusal is not None:
            raise unavailable(self._store.refusal)
        found = self._take(pop)
        if found.count:
            return None
        if pop.poll_ms > 0:
            if not self._waiting.hold(pop, pop.poll_ms):
                return _answer(pop, found, ResponseCode.POLLING_FULL, "POLLING_FULL")
            pop.command.raw = None
            self._look_again(pop, found)
            return None
        return _answer(pop, found, ResponseCode.POLLING_TIMEOUT, NOTHING)

    def _take(self, pop: _Pop) -> PoppedMessages:
        answer = _Answer(pop, self._queues, self._clock)
        found = self._taking.take(pop, answer.written)
        answer.expect(found)
        if found.count and found.rest:
            # What is left may be for another one that waits.
            self._share.put_off(lambda: self._waiting.look_again(pop.group, pop.origin_topic))
        return found

    def _look_again(self, pop: _Pop, found: PoppedMessages) -> None:
        """Wakes pops for what no message tells: a block that ends, a filter that stopped early."""
        if found.is_unfinished:
            self._share.put_off(lambda: self._waiting.look_again(pop.group, pop.origin_topic))
        elif found.free_ms:
            self._waiting.look_again_at(pop.group, pop.origin_topic, found.free_ms)

    def answer_later(self, pop: _Pop) -> bool:
        """Tries a held pop once more; whether it is answered."""
        try:
            found = self._take(pop)
        except (OSError, StoreError) as e:
            # It must not reach who woke this pop, such as the sender of a message.
            reason = f"reading failed: {e}"
            pop.connection.refuse(pop.command, ResponseCode.SYSTEM_ERROR, reason)
            return True
        if not found.count:
            self._look_again(pop, found)
        return found.count > 0

    def answer_at_last(self, pop: _Pop) -> None:
        """Answers a held pop whose time is over."""
        if not self.answer_later(pop):
            nothing = PoppedMessages(self._clock.now_ms())
            answer = _answer(pop, nothing, ResponseCode.POLLING_TIMEOUT, NOTHING)
            pop.connection.respond(pop.command, answer)

    def peek(self, command: Command, connection: Connection) -> Command:
        """200052: messages that a pop would find, which stay as they are."""
        request = command.read(PeekMessageRequest)
        topic = self._checks.check(
            connection,
            request.consumer_group,
            request.topic,
            request.queue_id,
            count=request.max_msg_nums,
        )
        query = PopQuery(
            group=request.consumer_group,
            topic=topic,
            queue_id=request.queue_id,
            count_max=max(request.max_msg_nums, 1),
        )
        found = self._taking.peek(query)
        if not found.count:
            return _answer(query, found, ResponseCode.PULL_NOT_FOUND, NOTHING)
        return _answer(query, found)


def _answer(
    query: PopQuery,
    found: PoppedMessages,
    code: int = ResponseCode.SUCCESS,
    remark: str = "FOUND",
) -> Command:
    header = PopMessageResponse(
        pop_time=found.pop_ms,
        invisible_time=query.invisible_ms,
        revive_qid=ORDER_REVIVE_QID if query.is_ordered else 0,
        rest_num=found.rest,
        start_offset_info=encode_start_offsets(found.starts),
        msg_offset_info=encode_offsets(found.offsets),
        order_count_info=encode_order_counts(found.counts) if query.is_ordered else None,
    )
    return Command(code, remark=remark, header=header, body=b"".join(found.parts))
