"""Takes half messages and ends them, once each (`broker/transaction/queue`)."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial

import msgspec

from pocketmq.broker.appending.appender import Appender, is_stored
from pocketmq.broker.appending.real_targets import RealTargets
from pocketmq.broker.appending.stored_message import StoredMessage
from pocketmq.broker.delay.progress import Progress
from pocketmq.broker.refusals import unavailable
from pocketmq.broker.store.disk.errors import StoreError, WriteFailedError
from pocketmq.broker.store.log.queue_log import OnStored, QueueLog
from pocketmq.broker.store.log.segment import ENTRY
from pocketmq.broker.store.metadata.metadata import Metadata
from pocketmq.broker.store.store import MessageStore
from pocketmq.broker.transactions.half import real_message
from pocketmq.broker.transactions.half_states import (
    COMMITTED,
    ENDING,
    MOVED,
    OPEN,
    OUTCOMES,
    HalfMessageStates,
)
from pocketmq.broker.transactions.operations import CUT, Operations
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import OperatingError, ResponseError, response_error
from pocketmq.protocol.names import names
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.listeners import Listeners

log = logging.getLogger("pocketmq.broker")

ENTRIES_PER_READ = 16_384

_PROGRESS = "transaction_progress"

OnEnded = Callable[[OperatingError | None], object]
"""Called once with the result of a decision: None when it is as safe as the broker's sends are."""


class Saved(msgspec.Struct, frozen=True):
    """What is written down of the two logs: where the next start begins to read.

    Attributes:
        half: all half messages before this offset are over for good.
        op: all op records before this offset are about half messages before `half`.
    """

    half: int = 0
    op: int = 0


class Transactions:
    """Keeps the state of a broker's half messages, and ends each of them once.

    A decision is taken once: the first one counts, wherever it comes from, and one that repeats it
    succeeds without effect. A commit stores the real message first and then says so in an op
    record; only a kill between the two has it come twice.

    Args:
        store, appender: of the broker.
        metadata: keeps the progress in the two logs.
        targets: find the logs of real messages.

    Attributes:
        half_states: the state of each half message.
        decided: notified of each half message that was committed or rolled back, and of which.
        copies: the newest copy of each open half message that was moved, its offset by the physical
            offset of the original.
    """

    def __init__(
        self,
        store: MessageStore,
        metadata: Metadata,
        clock: Clock,
        appender: Appender,
        targets: RealTargets,
    ) -> None:
        self._store, self._metadata = store, metadata
        self._appender, self._targets = appender, targets
        self._operations = Operations(store, clock, appender)
        text = metadata.state(_PROGRESS)
        self._saved = Saved() if text is None else msgspec.json.decode(text, type=Saved)
        self.half_states = HalfMessageStates(0, 0)
        self.decided: Listeners[[StoredMessage, int]] = Listeners()
        self.copies: dict[int, int] = {}
        self._ending: dict[int, list[tuple[int, OnEnded]]] = {}
        self._written: dict[QueueLog, int] = {}
        self._op_steps: deque[tuple[int, int]] = deque()
        self._progress = Progress(0)

    # -- the start ----------------------------------------------------------------------------

    @property
    def half_log(self) -> QueueLog | None:
        """The log of the half messages; None while there was none."""
        return self._store.find_log(names.HALF_TOPIC, 0)

    async def open(self) -> None:
        """Finds the open half messages in the logs.

        Raises:
            StoreError: a log is damaged.
        """
        half = self.half_log
        if half is None:
            return
        base = min(max(self._saved.half, half.min_offset), half.end_offset)
        self.half_states = HalfMessageStates(base, half.end_offset)
        self._progress = Progress(base)
        cut = self._replay(half.end_offset)
        self._find_copies(half, base)
        if cut is not None:
            await self._note_cut(cut)
        if count := self.half_states.open_count():
            log.info("%d half messages are open", count)

    def _replay(self, end: int) -> int | None:
        """Reads the op records; an offset if some are about messages that the half log lost."""
        lost = False
        for outcome, offsets in self._operations.replay(self._saved.op):
            if outcome == CUT:
                self.half_states.reopen_from(offsets[0])
                lost = lost and end < offsets[0]
                continue
            for offset in offsets:
                self.half_states.set(offset, outcome)
                lost = lost or offset >= end
        return end if lost else None

    async def _note_cut(self, end: int) -> None:
        """Makes sure that op records of lost half messages are not taken for those of new ones."""
        log.warning("op records are about half messages behind %d, which were lost", end)
        self._operations.add(end, CUT)
        self._operations.write()
        await self._store.drain()
        await self._store.checkpoint()

    def _find_copies(self, half: QueueLog, base: int) -> None:
        """Finds which half messages continue others; those are over then."""
        newest: dict[int, int] = {}
        for offset, _, origin in _entries(half, base):
            if origin:
                self.half_states.set(newest.get(origin, -1), MOVED)
                newest[origin] = offset
        if newest:
            for offset, physical, _ in _entries(half, base):
                if physical in newest:
                    self.half_states.set(offset, MOVED)
        self.copies = {k: v for k, v in newest.items() if self.half_states.state(v) == OPEN}

    # -- ending -------------------------------------------------------------------------------

    def half_queue(self) -> QueueLog:
        """Returns the log of the half messages, which is made if it is missing.

        Raises:
            ResponseError: 14, the log cannot be made or opened.
        """
        try:
            return self._store.queue_log(names.HALF_TOPIC, 0)
        except StoreError as e:
            raise unavailable(str(e)) from e

    def end(self, half: StoredMessage, outcome: int, on_ended: OnEnded) -> None:
        """Commits or rolls back, unless that was done.

        Args:
            half: the half message that the producer names; it may have been moved meanwhile.
            outcome: `COMMITTED` or `ROLLED_BACK`.
            on_ended: called when it is done, and not at all if this raises.

        Raises:
            ResponseError: it cannot be done.
        """
        self.grow()
        offset = self.copies.get(origin_of(half), half.queue_offset)
        state = self.half_states.state(offset)
        if state == ENDING:
            self._ending[offset].append((outcome, on_ended))
        elif state == outcome:
            on_ended(None)
        elif state != OPEN:
            raise _over(state)
        else:
            if self._store.refusal is not None:
                raise unavailable(self._store.refusal)
            ended = partial(self._ended, offset, half, outcome)
            if outcome == COMMITTED:
                self._append_real(half, ended)
            else:
                self._operations.add(offset, outcome, ended)
            self.half_states.set(offset, ENDING)
            self._ending[offset] = [(outcome, on_ended)]

    def _append_real(self, half: StoredMessage, ended: OnStored) -> None:
        try:
            target = self._targets.find(half)
            if isinstance(target, str):
                raise response_error(
                    ResponseCode.TOPIC_NOT_EXIST, f"the message cannot be committed: {target}"
                )
            self._appender.append_message(
                target,
                real_message(half),
                partial(self._real_stored, target, ended),
                prepared_transaction_offset=half.physical_offset,
            )
        except StoreError as e:
            raise unavailable(str(e)) from e

    def _real_stored(self, target: QueueLog, ended: OnStored, error: OperatingError | None) -> None:
        if is_stored(error):
            self._written[target] = target.written_position
        ended(error)

    def _ended(
        self, offset: int, half: StoredMessage, outcome: int, error: OperatingError | None
    ) -> None:
        waiting = self._ending.pop(offset)
        if is_stored(error):
            error = None
            self.half_states.set(offset, outcome)
            self.copies.pop(origin_of(half), None)
            if outcome == COMMITTED:
                self._operations.add(offset, outcome)
            self.decided.notify(half, outcome)
        else:
            self.half_states.set(offset, OPEN)
        for wanted, on_ended in waiting:
            on_ended(_over(outcome) if error is None and wanted != outcome else error)

    def grow(self) -> None:
        """Enters the half messages that were stored since the last call as open."""
        half = self.half_log
        if half is not None:
            self.half_states.grow(half.end_offset)

    def moved(self, offset: int, origin: int, copy: int) -> None:
        """Notes that a copy at the end of the queue is open now in place of a half message."""
        self.grow()
        self.half_states.set(offset, MOVED)
        self.copies[origin] = copy

    def given_up(self, offset: int, origin: int, outcome: int) -> None:
        """Ends a half message without a decision of its producer."""
        self.half_states.set(offset, outcome)
        self.copies.pop(origin, None)
        self._operations.add(offset, outcome)

    # -- progress -----------------------------------------------------------------------------

    def note_round(self) -> None:
        """Notes that the present op records are needed while present half messages are open."""
        operations, half = self._operations.log, self.half_log
        if operations is not None and half is not None:
            step = (half.end_offset, operations.end_offset)
            if not self._op_steps or self._op_steps[-1] != step:
                self._op_steps.append(step)

    def save(self) -> None:
        """Saves up to where the next start need not read the two logs."""
        half = self.half_log
        if half is None:
            return
        before, base = self.half_states.base, self.half_states.advance()
        if base > before:
            written, self._written = self._written, {}
            self._progress.note(base, {**written, half: half.written_position})
        durable, op = self._progress.advance(), self._saved.op
        while self._op_steps and self._op_steps[0][0] <= durable:
            _, op = self._op_steps.popleft()
        saved = Saved(durable, op)
        if saved != self._saved:
            self._metadata.set_state(_PROGRESS, msgspec.json.encode(saved).decode())
            self._saved = saved

    def still_needs(self, queue_log: QueueLog) -> bool:
        """Whether the oldest segment of a log is needed to know what is open."""
        if queue_log.topic == names.HALF_TOPIC:
            first = self._saved.half
        elif queue_log.topic == names.OP_HALF_TOPIC:
            first = self._saved.op
        else:
            return False
        _, end_offset = queue_log.segment_end(0)
        return first < end_offset

    async def close(self) -> None:
        """Writes the op records that are due, and saves the progress."""
        self._operations.write()
        await self._store.drain()
        self._operations.write()  # of what only ended now
        await self._store.drain()
        self._operations.close()
        try:
            self.save()
        except WriteFailedError as e:
            log.error("the next start reads more of the transactions' logs: %s", e)


def origin_of(half: StoredMessage) -> int:
    """The physical offset of the half message that a producer sent, by which copies are known."""
    return half.prepared_transaction_offset or half.physical_offset


def _over(state: int | None) -> ResponseError:
    how = "over since long ago" if state is None else f"{OUTCOMES.get(state, 'over')} already"
    return response_error(ResponseCode.SYSTEM_ERROR, f"the transaction is {how}")


def _entries(queue_log: QueueLog, offset: int) -> Iterator[tuple[int, int, int]]:
    """(queue offset, physical offset, tags code) of each record from an offset on."""
    while offset < queue_log.end_offset:
        for physical, _, code in ENTRY.iter_unpack(
            queue_log.read_entries(offset, ENTRIES_PER_READ)
        ):
            yield offset, physical, code
            offset += 1
