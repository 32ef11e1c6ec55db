"""The redrives of a broker: kept in its metadata, one at a time for a group."""

from __future__ import annotations

import logging
import re
from collections import Counter

import msgspec

from pocketmq.broker.appending.appender import Appender
from pocketmq.broker.redrive.letters import Letters
from pocketmq.broker.redrive.planning import SAMPLES_DEFAULT, CopiesFor, Planner
from pocketmq.broker.redrive.results import Results
from pocketmq.broker.redrive.targets import Targets
from pocketmq.broker.redrive.task import Progress, RedriveTask
from pocketmq.broker.store.disk.errors import StoreError
from pocketmq.broker.store.metadata.metadata import Metadata
from pocketmq.broker.store.store import MessageStore
from pocketmq.protocol.bodies.redrives import (
    LetterCounts,
    LetterState,
    Outcome,
    Redrive,
    RedriveChange,
    RedriveOrder,
    RedrivePlan,
    RedriveStart,
    RedriveState,
    ResultPage,
)
from pocketmq.protocol.errors import UsageError
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.slices import in_slices
from pocketmq.runtime.tasks import Tasks

log = logging.getLogger("pocketmq.broker")

PREFIX = "redrive_task_"
"""How the keys of redrives begin in the metadata; the redrive's and the group's name follow."""

ENDED_PER_GROUP_MAX = 10
"""Redrives of a group that are remembered after their end."""

ACTIVE_MAX = 64
"""Redrives that are under way at the same time."""

STATES_MAX = 1000
"""Dead letters whose states one answer tells."""

GROUPS_PER_SLICE = 20
"""Groups whose dead letters one turn of the loop counts: a look at the disk for each."""

ID_FORM = re.compile(r"[A-Za-z0-9_-]{1,64}")


class Redrives:
    """Plans, starts, changes and lists redrives.

    Args:
        letters: the dead letters.
        targets: where they may go.
        copies: makes copies for an order.
        results: what became of them.
        store, appender, metadata, broker_name: of the broker.
        clock: the broker's time.
    """

    def __init__(
        self,
        letters: Letters,
        targets: Targets,
        copies: CopiesFor,
        results: Results,
        store: MessageStore,
        appender: Appender,
        metadata: Metadata,
        broker_name: str,
        clock: Clock,
    ) -> None:
        self._letters, self._targets, self._copies = letters, targets, copies
        self._results, self._store, self._appender = results, store, appender
        self._metadata, self._broker_name, self._clock = metadata, broker_name, clock
        self._planner = Planner(letters, targets, copies, broker_name)
        self._known: dict[tuple[str, str], Progress] = {}
        self._past: Counter[tuple[str, Outcome]] = Counter()  # of redrives that are forgotten
        self._running: dict[str, RedriveTask] = {}
        self._starting: set[str] = set()
        self._tasks = Tasks()

    def start(self) -> None:
        """Goes on with what was under way, and forgets marks of deleted topics."""
        for text in self._metadata.states(PREFIX).values():
            progress = msgspec.json.decode(text, type=Progress)
            redrive = progress.redrive
            self._known[redrive.order.group, redrive.redrive_id] = progress
        try:
            self._forget_deleted()
        except (OSError, StoreError) as e:
            log.warning("marks of dead letters that are gone stay until the next start: %s", e)
        for progress in self._known.values():
            redrive = progress.redrive
            if redrive.state is RedriveState.RUNNING:
                try:
                    self._run(progress)
                except UsageError as e:  # begun by a version that understood it
                    redrive.state, redrive.why = RedriveState.FAILED, str(e)

    def _forget_deleted(self) -> None:
        """Forgets marks of logs that are gone, and of messages that a power cut has taken."""
        marks = self._letters.marks
        table, removed = self._store.logs.table, list[str]()
        for number in marks.numbers:
            known = table.by_number(number)
            queue_log = known and self._store.find_log(known.topic, known.queue_id)
            if queue_log:
                marks.cut(number, queue_log.written_offset)
            else:
                removed += marks.forget(number)
        rows = marks.rows()
        if rows or removed:
            self._metadata.change_states(rows, removed)

    async def close(self) -> None:
        """Stops; what is under way goes on when the broker starts again."""
        await self._tasks.close()

    # -- plans and starts ---------------------------------------------------------------------

    async def plan(self, order: RedriveOrder, samples: int = SAMPLES_DEFAULT) -> RedrivePlan:
        """Says what an order would do; see `Planner.plan`."""
        return await self._planner.plan(order, samples)

    async def begin(self, asked: RedriveStart) -> Redrive:
        """Starts what was planned. The same start again gives the redrive that is there.

        Raises:
            UsageError: it cannot be done, or not any more.
            OSError, StoreError: the disk does not take it now.
        """
        order, redrive_id = asked.order, asked.redrive_id
        group = order.group
        if not ID_FORM.fullmatch(redrive_id):
            raise UsageError(
                f"the redrive's id is {redrive_id!r:.100}: it has 1 to 64 letters, digits, - and _"
            )
        known = self._known.get((group, redrive_id))
        if known is not None:
            return known.redrive
        self._check_free(group)
        self._starting.add(group)
        try:
            self._planner.check(order)
            selected = await self._planner.select(order, asked.ends)
            if selected.plan_id != asked.plan_id:
                raise UsageError(
                    f"the dead letters of {group} have changed since the plan, {selected.letters} "
                    f"are selected now: plan again"
                )
            progress = self._enter(asked, selected.letters)
        finally:
            self._starting.discard(group)
        self._run(progress)
        return progress.redrive

    def _check_free(self, group: str) -> None:
        active = [p.redrive for p in self._known.values() if p.redrive.state.is_active]
        for redrive in active:
            if redrive.order.group == group:
                raise UsageError(
                    f"the redrive {redrive.redrive_id} of {group} is {redrive.state} on "
                    f"{self._broker_name}: wait for it, or cancel it"
                )
        if group in self._starting:
            raise UsageError(f"another redrive of {group} is just being started")
        if len(active) + len(self._starting) >= ACTIVE_MAX:
            raise UsageError(
                f"{ACTIVE_MAX} redrives are under way on {self._broker_name}, which is the most: "
                f"wait for one of them"
            )

    def _enter(self, asked: RedriveStart, count: int) -> Progress:
        order = asked.order
        logs = self._letters.logs(order.group)
        redrive = Redrive(
            redrive_id=asked.redrive_id,
            broker_name=self._broker_name,
            order=order,
            state=RedriveState.RUNNING,
            planned=count,
            created_ms=self._clock.now_ms(),
            results_from=self._results.end,
        )
        numbers = {str(queue_id): queue_log.number for queue_id, queue_log in logs.items()}
        progress = Progress(redrive=redrive, ends=asked.ends, numbers=numbers)
        ended = [p for p in self._of(order.group) if not p.redrive.state.is_active]
        forgotten = ended[ENDED_PER_GROUP_MAX - 1 :]
        self._metadata.change_states(
            [_row(progress)], [_key(old.redrive) for old in forgotten], durably=True
        )
        for old in forgotten:
            self._past.update(_outcomes(old.redrive))
            del self._known[order.group, old.redrive.redrive_id]
        self._known[order.group, asked.redrive_id] = progress
        return progress

    def _run(self, progress: Progress) -> None:
        redrive = progress.redrive
        group = redrive.order.group
        task = RedriveTask(
            progress,
            self._save,
            self._letters,
            self._targets,
            self._copies(redrive.order),
            self._results,
            self._store,
            self._appender,
            self._broker_name,
            self._clock,
        )
        self._running[group] = task

        async def run() -> None:
            try:
                await task.run()
            finally:
                if self._running.get(group) is task:
                    del self._running[group]

        self._tasks.spawn(run(), f"redrive {redrive.redrive_id}")

    def _save(self, progress: Progress, durably: bool) -> None:
        rows = self._letters.marks.rows()
        try:
            self._metadata.change_states([*rows, _row(progress)], [], durably=durably)
        except BaseException:
            self._letters.marks.put_back(rows)
            raise

    # -- changes ------------------------------------------------------------------------------

    async def change(self, group: str, redrive_id: str, change: str) -> Redrive:
        """Pauses, resumes or cancels a redrive; returns when it has stopped or runs.

        Raises:
            UsageError: there is no such redrive, or it has ended.
        """
        progress = self._find(group, redrive_id)
        redrive = progress.redrive
        if change not in set(RedriveChange):
            raise UsageError(f"{change!r:.100} is none of {', '.join(RedriveChange)}")
        if not redrive.state.is_active:
            raise UsageError(f"the redrive {redrive_id} of {group} is {redrive.state} already")
        if change == RedriveChange.RESUME:
            if redrive.state is RedriveState.PAUSED:
                self._resume(progress)
            return redrive
        wanted = RedriveState.PAUSED if change == RedriveChange.PAUSE else RedriveState.CANCELLED
        task = self._running.get(group)
        if task is not None:
            await task.stop_as(wanted)
        elif wanted is RedriveState.CANCELLED:
            redrive.state, redrive.ended_ms = wanted, self._clock.now_ms()
            self._save(progress, True)
        return redrive

    def _resume(self, progress: Progress) -> None:
        redrive = progress.redrive
        redrive.state, redrive.why = RedriveState.RUNNING, ""
        redrive.order.failures_max = 0
        self._save(progress, True)
        self._run(progress)

    def _find(self, group: str, redrive_id: str) -> Progress:
        progress = self._known.get((group, redrive_id))
        if progress is None:
            raise UsageError(f"there is no redrive {redrive_id!r:.100} of {group!r:.200}")
        return progress

    # -- reports ------------------------------------------------------------------------------

    def _of(self, group: str) -> list[Progress]:
        found = [p for p in self._known.values() if p.redrive.order.group == group]
        return sorted(found, key=lambda p: p.redrive.created_ms, reverse=True)

    def of_group(self, group: str) -> list[Redrive]:
        """The redrives of a group, the newest first."""
        return [progress.redrive for progress in self._of(group)]

    def outcomes(self) -> Counter[tuple[str, Outcome]]:
        """Counts the dead letters that redrives were done with, by group and outcome.

        Redrives count that are known at the start of the broker, and all since then.
        """
        counts = Counter(self._past)
        for progress in self._known.values():
            counts.update(_outcomes(progress.redrive))
        return counts

    async def results(self, group: str, redrive_id: str, begin: int) -> ResultPage:
        """Reads results of a redrive.

        Args:
            group, redrive_id: whose.
            begin: where the page begins; negative for the first one.

        Raises:
            UsageError: there is no such redrive.
            OSError, StoreError: the disk cannot be read now.
        """
        redrive = self._find(group, redrive_id).redrive
        return await self._results.page(redrive_id, max(begin, redrive.results_from))

    def counts(self, group: str) -> LetterCounts:
        """Counts the dead letters of a group by what became of them.

        Raises:
            OSError, StoreError: the disk cannot be read now.
        """
        out = LetterCounts(group=group)
        for queue_log in self._letters.logs(group).values():
            begin, end = queue_log.min_offset, queue_log.max_offset
            if begin >= end:
                continue
            counts = self._letters.marks.count(queue_log.number, begin, end)
            out.open += counts[LetterState.OPEN]
            out.redriven += counts[LetterState.REDRIVEN]
            out.discarded += counts[LetterState.DISCARDED]
            oldest_ms = queue_log.timestamp_at(begin)
            out.oldest_ms = min(out.oldest_ms or oldest_ms, oldest_ms)
            out.newest_ms = max(out.newest_ms, queue_log.timestamp_at(end - 1))
        return out

    def states(self, group: str, queue_id: int, offset: int, count: int) -> LetterCounts:
        """Says what became of each dead letter in a range of offsets, of `STATES_MAX` at most.

        Raises:
            OSError, StoreError: the disk cannot be read now.
        """
        out = self.counts(group)
        queue_log = self._letters.logs(group).get(queue_id)
        if queue_log is not None:
            out.first = max(offset, queue_log.min_offset)
            end = min(offset + min(count, STATES_MAX), queue_log.max_offset)
            marks, number = self._letters.marks, queue_log.number
            out.states = [marks.state_of(number, at) for at in range(out.first, end)]
        return out

    async def all_counts(self) -> list[LetterCounts]:
        """Counts the dead letters of each group that has some, sorted by group.

        Raises:
            OSError, StoreError: the disk cannot be read now.
        """
        groups = in_slices(self._clock.machine, self._letters.groups(), GROUPS_PER_SLICE)
        return [self.counts(group) async for group in groups]


def _key(redrive: Redrive) -> str:
    return f"{PREFIX}{redrive.redrive_id}_{redrive.order.group}"


def _row(progress: Progress) -> tuple[str, str]:
    return _key(progress.redrive), msgspec.json.encode(progress).decode()


def _outcomes(redrive: Redrive) -> dict[tuple[str, Outcome], int]:
    group = redrive.order.group
    return {
        (group, Outcome.SENT): redrive.sent,
        (group, Outcome.DISCARDED): redrive.discarded,
        (group, Outcome.REOPENED): redrive.reopened,
        (group, Outcome.REFUSED): redrive.refused,
    }
