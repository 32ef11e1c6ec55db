"""Carries out one redrive: turn by turn, so that each dead letter is sent once whatever happens."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import NamedTuple

import msgspec

from pocketmq.broker.appending.appender import Appender, is_stored
from pocketmq.broker.appending.stored_message import stored_in
from pocketmq.broker.redrive.copies import Copies, LetterRefusedError, place_in
from pocketmq.broker.redrive.letters import DeadLetter, Letters
from pocketmq.broker.redrive.results import Results
from pocketmq.broker.redrive.targets import Targets
from pocketmq.broker.store.disk.errors import StoreError
from pocketmq.broker.store.log.queue_log import AS_CONFIGURED, QueueLog
from pocketmq.broker.store.store import MessageStore
from pocketmq.protocol.bodies.redrives import (
    LetterResult,
    LetterState,
    Outcome,
    Redrive,
    RedriveAction,
    RedriveState,
)
from pocketmq.protocol.errors import OperatingError
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.slices import next_slice

log = logging.getLogger("pocketmq.broker")

LETTERS_PER_TURN_MAX = 64
"""Dead letters that one turn sends, and that are looked for again after a kill."""

TURN_S = 0.1
"""With a rate, a turn sends what is due in so much time."""

RETRY_S = 1.0
"""When it is tried again after the store took no writes."""

SHOWN_S = 0.05
"""How long a new leader waits before it looks again whether its records are visible."""

RECORDS_PER_SLICE = 64
SIZE_PER_SLICE = 1024 * 1024

_MARKS = {
    Outcome.SENT: LetterState.REDRIVEN,
    Outcome.DISCARDED: LetterState.DISCARDED,
    Outcome.REOPENED: LetterState.OPEN,
}

_ACTIONS = {
    RedriveAction.DISCARD: Outcome.DISCARDED,
    RedriveAction.REOPEN: Outcome.REOPENED,
}


class Progress(msgspec.Struct, kw_only=True):
    """A redrive as the metadata keeps it.

    Attributes:
        redrive: what others are told.
        ends: up to where each queue of dead letters goes, by queue id.
        numbers: the numbers of the logs of dead letters, by queue id.
        queue_id, offset: where the next turn begins.
        targets: by the number of a log that copies went to, an offset: all copies before it are
            counted, and no copy of a later turn is before it.
        is_settled: whether no turn was under way when this was written down.
    """

    redrive: Redrive
    ends: dict[str, int]
    numbers: dict[str, int]
    queue_id: int = 0
    offset: int = 0
    targets: dict[str, int] = msgspec.field(default_factory=dict)
    is_settled: bool = False


class Place(NamedTuple):
    """Where a copy is."""

    topic: str
    queue_id: int
    offset: int


class RedriveTask:
    """Runs a redrive from where it stands to its end.

    A turn appends some copies, brings them to the disk, and only then writes down that they were
    sent. A start after a kill, and a new leader of a broker set, look for copies of an unfinished
    turn at the ends of the logs that copies went to; before the first copy to a log, where that log
    ended is on the disk.

    Args:
        progress: where it stands.
        save: writes down the progress with the marks of the dead letters; may ask for the disk.
        letters, targets, copies, results, store, appender, broker_name: of the broker.
        clock: its time; rates go by it.
    """

    def __init__(
        self,
        progress: Progress,
        save: Callable[[Progress, bool], None],
        letters: Letters,
        targets: Targets,
        copies: Copies,
        results: Results,
        store: MessageStore,
        appender: Appender,
        broker_name: str,
        clock: Clock,
    ) -> None:
        self._progress, self._redrive, self._save = progress, progress.redrive, save
        self._letters, self._targets, self._copies = letters, targets, copies
        self._results, self._store, self._append = results, store, appender.append_message
        self._broker_name, self._clock = broker_name, clock
        self._copied: dict[tuple[int, int], Place] = {}
        self._wanted = RedriveState.RUNNING
        self._settled = asyncio.Event()
        self._stirred = asyncio.Event()

    async def run(self) -> None:
        """Runs until the redrive is done, paused, cancelled or has failed."""
        redrive = self._redrive
        try:
            while redrive.state is RedriveState.RUNNING:
                try:
                    await self._run_on()
                except (OSError, StoreError) as e:
                    await self._hold(str(e))
        finally:
            self._settled.set()

    async def stop_as(self, state: RedriveState) -> None:
        """Has the redrive stop behind the turn that is under way; returns when it has."""
        self._wanted = state
        self._stirred.set()
        await self._settled.wait()

    async def _run_on(self) -> None:
        redrive, progress = self._redrive, self._progress
        if not self._has_source():
            self._end(RedriveState.FAILED, "its dead letters were deleted with their topic")
            return
        if progress.is_settled:
            self._pass_over()
        else:
            await self._find_copies()
        if redrive.why:
            redrive.why = ""
            log.info("the redrive %s of group %s goes on", redrive.redrive_id, redrive.order.group)
        rate = redrive.order.rate if redrive.order.action is RedriveAction.REDRIVE else 0
        due_s = self._clock.monotonic()
        async with aclosing(self._turns()) as turns:
            async for turn in turns:
                if rate:
                    due_s = max(due_s, self._clock.monotonic() - TURN_S)
                    await self._wait_until(due_s)
                    due_s += len(turn) / rate
                if self._is_stopped():
                    return
                await self._turn(turn)
        if not self._is_stopped():
            self._end(RedriveState.DONE)

    def _is_stopped(self) -> bool:
        """Whether the redrive is to stop here; if so, its state says how."""
        redrive, limit = self._redrive, self._redrive.order.failures_max
        if limit and redrive.refused >= limit and self._wanted is RedriveState.RUNNING:
            self._wanted = RedriveState.PAUSED
            redrive.why = (
                f"{redrive.refused} messages were refused, failuresMax is {limit}: look at the "
                f"results; with resume it goes on without this limit"
            )
        if self._wanted is RedriveState.RUNNING:
            return False
        self._end(self._wanted)
        return True

    def _end(self, state: RedriveState, why: str = "", *, is_settled: bool = True) -> None:
        redrive, self._progress.is_settled = self._redrive, is_settled
        before = redrive.why
        redrive.state, redrive.why = state, why or before
        if not state.is_active:
            redrive.ended_ms = self._clock.now_ms()
        try:
            self._save(self._progress, True)
        except StoreError:
            redrive.state, redrive.why, redrive.ended_ms = RedriveState.RUNNING, before, 0
            raise
        log.info("the redrive %s of group %s is %s: %d sent, %d refused", redrive.redrive_id,
                 redrive.order.group, state, redrive.sent, redrive.refused)  # fmt: skip

    async def _hold(self, reason: str) -> None:
        """Waits before the next attempt, because the store takes no writes."""
        redrive = self._redrive
        if redrive.why != reason:
            redrive.why = reason
            log.warning("the redrive %s of group %s is held up, it is tried again every %g s: %s",
                        redrive.redrive_id, redrive.order.group, RETRY_S, reason)  # fmt: skip
        await self._wait_until(self._clock.monotonic() + RETRY_S)
        if self._wanted is RedriveState.RUNNING:
            return
        try:
            self._end(self._wanted, is_settled=False)
        except StoreError as e:
            log.warning("the redrive %s cannot be stopped yet: %s", redrive.redrive_id, e)
            await self._clock.machine.sleep(RETRY_S)

    async def _wait_until(self, time_s: float) -> None:
        """Sleeps until a time of the clock, or until somebody wants the redrive to stop."""
        wait_s = time_s - self._clock.monotonic()
        if wait_s <= 0 or self._wanted is not RedriveState.RUNNING:
            return
        timer = self._clock.call_later(wait_s, self._stirred.set)
        try:
            await self._stirred.wait()
        finally:
            timer.cancel()
            self._stirred.clear()

    # -- turns --------------------------------------------------------------------------------

    def _has_source(self) -> bool:
        """Whether its dead letters are there, and were not deleted with their topic."""
        logs = self._letters.logs(self._redrive.order.group)
        numbers = {str(queue_id): queue_log.number for queue_id, queue_log in logs.items()}
        return all(numbers.get(queue_id) == n for queue_id, n in self._progress.numbers.items())

    async def _turns(self) -> AsyncGenerator[list[DeadLetter], None]:
        """Yields the dead letters that are left, so many at a time."""
        progress, order = self._progress, self._redrive.order
        size = LETTERS_PER_TURN_MAX
        if order.rate and order.action is RedriveAction.REDRIVE:
            size = max(1, min(size, int(order.rate * TURN_S)))
        turn: list[DeadLetter] = []
        start = progress.queue_id, progress.offset
        letters = self._letters.selected(order.group, order.selection, progress.ends, start)
        async with aclosing(letters):
            async for letter in letters:
                turn.append(letter)
                if len(turn) >= size:
                    yield turn
                    turn = []
        if turn:
            yield turn

    async def _turn(self, turn: list[DeadLetter]) -> None:
        """Does some dead letters, and writes down that they are done.

        Raises:
            OSError, StoreError: not all of them are done, and nothing is written down.
        """
        outcome = _ACTIONS.get(self._redrive.order.action)
        if outcome is None:
            results = await self._send(turn)
        else:
            results = [self._result(letter, outcome) for letter in turn]
        await self._sync({letter.queue_id for letter in turn})
        await self._results.write(self._redrive.redrive_id, results)
        self._note(turn, results)

    async def _send(self, turn: list[DeadLetter]) -> list[LetterResult]:
        refused: dict[tuple[int, int], str] = {}
        appends: list[asyncio.Future[None]] = []
        for letter in turn:
            place = letter.queue_id, letter.offset
            if place in self._copied:
                continue
            try:
                queue_log = self._targets.log_of(letter, self._redrive.order)
                copy = self._copies.copy(letter, self._redrive.redrive_id)
            except LetterRefusedError as e:
                refused[place] = str(e)
                continue
            if self._store.refusal is not None:
                raise StoreError(self._store.refusal)
            self._enter_target(queue_log)
            copied = Place(queue_log.topic, queue_log.queue_id, queue_log.next_offset)
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._append(queue_log, copy, self._when_stored(place, copied, done), AS_CONFIGURED)
            appends.append(done)
        outcomes = await asyncio.gather(*appends, return_exceptions=True)
        for error in outcomes:
            if error is not None:
                raise error
        return [
            self._result(letter, Outcome.REFUSED, reason=refused[place])
            if (place := (letter.queue_id, letter.offset)) in refused
            else self._result(letter, Outcome.SENT, self._copied[place])
            for letter in turn
        ]

    def _when_stored(
        self, place: tuple[int, int], copied: Place, done: asyncio.Future[None]
    ) -> Callable[[OperatingError | None], None]:
        def on_stored(error: OperatingError | None) -> None:
            if is_stored(error):
                self._copied[place] = copied
            if done.done():
                return
            if is_stored(error):
                done.set_result(None)
            else:
                done.set_exception(StoreError(str(error)))

        return on_stored

    def _enter_target(self, queue_log: QueueLog) -> None:
        """Has the disk know where a log ended before the first copy went there."""
        targets, number = self._progress.targets, str(queue_log.number)
        if number not in targets:
            targets[number] = queue_log.written_offset
            self._save(self._progress, True)

    async def _sync(self, queue_ids: set[int]) -> None:
        """Brings the copies of a turn to the disk, and the dead letters that they are of."""
        logs = [queue_log for queue_id, queue_log in self._letters.logs(
            self._redrive.order.group).items() if queue_id in queue_ids]  # fmt: skip
        for number in self._progress.targets:
            queue_log = self._target(number)
            if queue_log is not None:
                logs.append(queue_log)
        for queue_log in logs:
            if queue_log.synced_position < queue_log.written_position:
                await self._store.flusher.sync(queue_log)

    def _target(self, number: str) -> QueueLog | None:
        known = self._store.logs.table.by_number(int(number))
        return None if known is None else self._store.find_log(known.topic, known.queue_id)

    def _note(self, turn: list[DeadLetter], results: list[LetterResult]) -> None:
        progress, redrive = self._progress, self._redrive
        for letter, result in zip(turn, results, strict=True):
            match result.outcome:
                case Outcome.SENT:
                    redrive.sent += 1
                case Outcome.DISCARDED:
                    redrive.discarded += 1
                case Outcome.REOPENED:
                    redrive.reopened += 1
                case Outcome.REFUSED:
                    redrive.refused += 1
            state = _MARKS.get(result.outcome)
            if state is not None:
                self._letters.marks.mark(letter.number, letter.offset, state)
        last = turn[-1]
        progress.queue_id, progress.offset = last.queue_id, last.offset + 1
        for letter in turn:
            self._copied.pop((letter.queue_id, letter.offset), None)
        if not self._copied:  # a power cut may leave copies of several turns that are not noted
            for number in progress.targets:
                queue_log = self._target(number)
                if queue_log is not None:
                    progress.targets[number] = queue_log.written_offset
        self._save(progress, False)

    def _result(
        self, letter: DeadLetter, outcome: Outcome, place: Place | None = None, reason: str = ""
    ) -> LetterResult:
        result = LetterResult(
            queue_id=letter.queue_id,
            offset=letter.offset,
            message_id=letter.message_id,
            outcome=outcome,
            reason=reason,
            time_ms=self._clock.now_ms(),
        )
        if place is not None:
            result.topic, result.to_queue_id, result.to_offset = place
        return result

    # -- after a kill -------------------------------------------------------------------------

    def _pass_over(self) -> None:
        """Goes on after a pause: what others have written since is nobody's copy."""
        progress = self._progress
        progress.is_settled = False
        progress.targets = {
            number: queue_log.written_offset
            for number in progress.targets
            if (queue_log := self._target(number)) is not None
        }
        self._save(progress, True)

    async def _find_copies(self) -> None:
        """Looks for copies of a turn that was not written down."""
        self._copied.clear()
        for number, offset in self._progress.targets.items():
            queue_log = self._target(number)
            if queue_log is None:
                continue
            begin, end = max(offset, queue_log.min_offset), queue_log.written_offset
            while queue_log.end_offset < end:  # a new leader's followers do not have them yet
                await self._clock.machine.sleep(SHOWN_S)
            while begin < end:
                part = queue_log.read(begin, min(RECORDS_PER_SLICE, end - begin), SIZE_PER_SLICE)
                following = begin
                for message in stored_in(part, begin):
                    following = message.queue_offset + 1
                    place = place_in(message, self._redrive.redrive_id, self._broker_name)
                    if place is not None:
                        self._copied[place] = Place(
                            queue_log.topic, queue_log.queue_id, message.queue_offset
                        )
                begin = following if following == part.next_offset else following + 1
                await next_slice(self._clock.machine)
