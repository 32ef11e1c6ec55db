"""The operations that put groups elsewhere, with a preview before and a way back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pocketmq.client import Admin, MessageQueue
from pocketmq.client.admin.results import QueueReset as Reset
from pocketmq.client.errors import UnknownTopicError
from pocketmq.console.api.bodies.offsets import (
    OffsetChanges,
    OffsetReset,
    OffsetResets,
    QueueOffset,
    QueueReset,
)
from pocketmq.console.api.callers import Callers, Clients
from pocketmq.console.api.changes.offset_history import OffsetHistory
from pocketmq.console.api.changes.offset_sample import sample
from pocketmq.console.api.paths import PREFIX
from pocketmq.console.api.queues import queue_named
from pocketmq.console.web.operations import Call, Operation
from pocketmq.console.web.problems import ProblemError, not_found
from pocketmq.protocol.errors import GroupMissingError, UsageError
from pocketmq.runtime.clock import Clock

Offsets = Mapping[MessageQueue, int]


class OffsetCalls:
    """Resets groups' offsets, and remembers where the groups stood.

    Args:
        callers: their clients.
        clock: the source of time.
    """

    def __init__(self, callers: Callers, clock: Clock) -> None:
        self._callers = callers
        self._history = OffsetHistory(clock)

    def operations(self) -> list[Operation]:
        """Returns the operations of this family."""
        serve = self._callers.serve
        offsets = f"{PREFIX}/groups/{{group}}/offsets"
        return [
            Operation(
                "POST", offsets, "resetOffsets",
                "Put a group elsewhere in a topic, or tell what that would do.",
                serve(self.reset), OffsetResets, body=OffsetReset,
            ),
            Operation(
                "GET", f"{offsets}/changes", "listOffsetChanges",
                "Resets by this console in the last 24 hours, which can be undone.",
                serve(self.changes), OffsetChanges,
            ),
        ]  # fmt: skip

    async def changes(self, clients: Clients, call: Call) -> OffsetChanges:
        """Lists what can be undone."""
        group = call.path["group"]
        await _check_group(clients.admin, group)
        return OffsetChanges(changes=self._history.of_group(group))

    async def reset(self, clients: Clients, call: Call) -> OffsetResets:
        """Resets a group's offsets."""
        wanted, group = call.body, call.path["group"]
        assert isinstance(wanted, OffsetReset)
        if not wanted.preview:
            self._callers.check_writes()
        try:
            return await self._reset(clients, call, group, wanted)
        except UnknownTopicError as e:
            raise not_found("topic", wanted.topic, f"GET {PREFIX}/topics") from e
        except GroupMissingError as e:
            raise not_found("group", group, f"GET {PREFIX}/groups") from e

    async def _reset(
        self, clients: Clients, call: Call, group: str, wanted: OffsetReset
    ) -> OffsetResets:
        admin, topic = clients.admin, wanted.topic
        _check_one(wanted)
        queues = None if wanted.queue is None else [queue_named(topic, wanted.queue)]
        first = await admin.reset_offsets(group, topic, to="earliest", queues=queues, dry_run=True)
        last = await admin.reset_offsets(group, topic, to="latest", queues=queues, dry_run=True)
        ends = {row.queue: (low.after, row.after) for low, row in zip(first, last, strict=True)}
        targets = self._targets(group, wanted, last, ends)
        _check_expected(group, wanted, last)

        async def reset(*, dry_run: bool) -> list[Reset]:
            if targets is not None:
                return await admin.reset_offsets(group, topic, offsets=targets, dry_run=dry_run)
            return await admin.reset_offsets(
                group, topic, to=wanted.to, offset=wanted.offset,
                timestamp_ms=wanted.timestamp_ms, queues=queues, dry_run=dry_run,
            )  # fmt: skip

        rows = [_shown(row, ends) for row in await reset(dry_run=wanted.preview)]
        done = OffsetResets(
            is_done=not wanted.preview,
            queues=rows,
            again=sum(max(row.messages, 0) for row in rows),
            skipped=-sum(min(row.messages, 0) for row in rows),
        )
        if not wanted.preview:
            user = "" if call.caller is None else call.caller.access_key
            done.change = self._history.add(group, topic, rows, user, call.reason)
        elif wanted.sample:
            done.sample = await sample(clients.reader, topic, rows, wanted.sample)
        return done

    def _targets(
        self,
        group: str,
        wanted: OffsetReset,
        now: Sequence[Reset],
        ends: Mapping[MessageQueue, tuple[int, int]],
    ) -> Offsets | None:
        """The offset of each queue where they are not the same; None if the brokers find them."""
        if wanted.offsets is not None:
            return _by_queue(wanted.topic, wanted.offsets)
        if wanted.shift is not None:
            wished = {row.queue: _within(row.before, ends[row.queue]) for row in now}
            wished = {queue: offset + wanted.shift for queue, offset in wished.items()}
        elif wanted.undo is not None:
            wished = self._undone(group, wanted)
        else:
            return None
        return {queue: _within(wished[queue], ends[queue]) for queue in wished if queue in ends}

    def _undone(self, group: str, wanted: OffsetReset) -> dict[MessageQueue, int]:
        """Where a group stood before a change."""
        found = self._history.get(group, wanted.undo or "")
        if found is None or found.topic != wanted.topic:
            raise not_found(
                "change", wanted.undo or "", f"GET {PREFIX}/groups/{group}/offsets/changes"
            )
        return {
            MessageQueue(found.topic, each.broker, each.queue): each.before for each in found.queues
        }


def _check_one(wanted: OffsetReset) -> None:
    """Checks that a request says in one way where the group goes on.

    Raises:
        UsageError: it does not.
    """
    ways = (
        wanted.to, wanted.offset, wanted.timestamp_ms, wanted.shift, wanted.offsets, wanted.undo,
    )  # fmt: skip
    if sum(way is not None for way in ways) != 1:
        raise UsageError("give one of to, offset, timestampMs, shift, offsets and undo")
    if wanted.queue is not None and (wanted.offsets is not None or wanted.undo is not None):
        raise UsageError("offsets and undo name their queues: leave out queue")


def _check_expected(group: str, wanted: OffsetReset, now: Sequence[Reset]) -> None:
    """Checks that a group stands where the caller has seen it.

    Raises:
        ProblemError: 409, it has moved.
    """
    if wanted.expected is None:
        return
    stands = {row.queue: row.before for row in now}
    moved = [
        f"{queue.broker_name}:{queue.queue_id} from {offset} to {stands.get(queue, 'nowhere')}"
        for queue, offset in _by_queue(wanted.topic, wanted.expected).items()
        if stands.get(queue) != offset
    ]
    if moved:
        more = f" and {len(moved) - 3} more queues" if len(moved) > 3 else ""
        raise ProblemError(
            409,
            "The group has moved",
            f"since the preview, {group} has moved in {', '.join(moved[:3])}{more}: nothing was "
            f"changed",
            "look at what it would do now; stop the members of the group, or leave out what is "
            "expected",
        )


def _by_queue(topic: str, offsets: Sequence[QueueOffset]) -> dict[MessageQueue, int]:
    """Offsets by their queues.

    Raises:
        UsageError: a queue is named twice.
    """
    found = {queue_named(topic, each.queue): each.offset for each in offsets}
    if len(found) < len(offsets):
        raise UsageError("a queue is named twice")
    return found


def _within(offset: int, ends: tuple[int, int]) -> int:
    return min(max(offset, ends[0]), ends[1])


def _shown(row: Reset, ends: Mapping[MessageQueue, tuple[int, int]]) -> QueueReset:
    stood = row.before
    if row.queue in ends:
        stood = _within(stood, ends[row.queue])
    return QueueReset(
        broker=row.queue.broker_name,
        queue=row.queue.queue_id,
        before=row.before,
        after=row.after,
        messages=stood - row.after,
    )


async def _check_group(admin: Admin, group: str) -> None:
    """Checks that there is a group, and that the caller may know of it."""
    try:
        await admin.group_configs(group)
    except GroupMissingError as e:
        raise not_found("group", group, f"GET {PREFIX}/groups") from e
