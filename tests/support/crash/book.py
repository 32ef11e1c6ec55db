"""What a broker was asked and what it said: what must, may and must not be there after a crash."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from pocketmq.protocol import flags
from pocketmq.protocol.messages.message import ReceivedMessage

_LATER = (
    "ended", "recall_since", "recalled", "deleted_since", "deleted", "expired", "settled",
)  # fmt: skip
"""What may happen to a message after it was acknowledged."""

Queue = tuple[str, int]
Logs = dict[Queue, list[ReceivedMessage]]

PLAIN, WAITING, RETRY, HALF = "plain", "waiting", "retry", "half"


class Crash(NamedTuple):
    """An end of a broker.

    Attributes:
        position: behind how many ops of the disk.
        is_kill: the process was killed; otherwise the power went.
    """

    position: int
    is_kill: bool


class Mark(NamedTuple):
    """A time in which everything that happened before it was brought to the disk."""

    start: int
    end: int


@dataclass
class Entry:
    """One message; all positions count ops of the disk, and None is never.

    Attributes:
        topic: where it is to be found in the end.
        since: it was sent behind so many ops.
        acked: it was acknowledged then.
        offset: where it was said to stand; only of plain ones.
        wants_flush: False if it said WAIT=false.
        due_ms: not before this.
        decision: of its producer; what it says, and says again when it is asked.
        ended: the decision was acknowledged then.
        recall_since, recalled: it was called back.
        deleted_since, deleted: its topic was deleted.
        expired: retention took it, or may have.
        settled: it was delivered, and that was written down.
    """

    body: bytes
    kind: str
    topic: str
    queue_id: int
    since: int
    acked: int | None = None
    offset: int | None = None
    place: int = -1
    wants_flush: bool = True
    due_ms: int = 0
    decision: int = 0
    ended: int | None = None
    recall_since: int | None = None
    recalled: int | None = None
    deleted_since: int | None = None
    deleted: int | None = None
    expired: int | None = None
    settled: int | None = None
    crashes: int = 0


class Commit(NamedTuple):
    """An offset that a group committed."""

    since: int
    acked: int | None
    offset: int


@dataclass
class Book:
    """Everything about one data directory.

    Attributes:
        is_sync: whether the broker runs with SYNC_FLUSH.
        entries: by (topic, body).
        commits: by queue, of one group.
        marks: see `Mark`.
        lost_power: whether there was a power cut before.
    """

    is_sync: bool
    entries: dict[tuple[str, bytes], Entry] = field(default_factory=dict)
    commits: dict[Queue, list[Commit]] = field(default_factory=dict)
    marks: list[Mark] = field(default_factory=list)
    lost_power: bool = False

    def add(self, entry: Entry) -> Entry:
        assert (entry.topic, entry.body) not in self.entries
        self.entries[entry.topic, entry.body] = entry
        return entry

    def of_kind(self, kind: str) -> list[Entry]:
        return [entry for entry in self.entries.values() if entry.kind == kind]

    # -- what must be -------------------------------------------------------------------------

    def is_promised(self, at: int | None, crash: Crash, *, wants_flush: bool = True) -> bool:
        """Whether what was acknowledged then must have outlived a crash."""
        if at is None or at > crash.position:
            return False
        if crash.is_kill or (self.is_sync and wants_flush):
            return True
        return self._is_flushed(at, crash)

    def _is_flushed(self, at: int, crash: Crash) -> bool:
        return any(m.start >= at and m.end <= crash.position for m in self.marks)

    def is_there(self, entry: Entry, crash: Crash) -> bool:
        """Whether a message must be in the store after a crash, wherever it waits."""
        return self.is_promised(entry.acked, crash, wants_flush=entry.wants_flush) and not (
            _by(entry.expired, crash) or _by(entry.deleted_since, crash)
        )

    def is_delivered(self, entry: Entry, crash: Crash) -> bool:
        """Whether a message must come to its topic in the end."""
        if not self.is_there(entry, crash):
            return False
        if entry.kind == HALF:
            return entry.decision == flags.TRANSACTION_COMMIT
        return not _by(entry.recall_since, crash)

    def is_forbidden(self, entry: Entry, crash: Crash) -> bool:
        """Whether a message must not come, or not any more."""
        if self.is_promised(entry.recalled, crash) and self.is_promised(
            entry.acked, crash, wants_flush=entry.wants_flush
        ):
            return True
        if _by(entry.deleted, crash):
            return True
        return entry.kind == HALF and entry.decision != flags.TRANSACTION_COMMIT

    # -- comparing ----------------------------------------------------------------------------

    def compare_at_start(
        self, logs: Logs, crash: Crash, unserved: Collection[Queue] = ()
    ) -> list[str]:
        """What is wrong with what a broker holds right after a crash.

        Of queues that are not served nobody can tell: they must be there when they are again.
        """
        wrong = []
        found: Counter[tuple[str, bytes]] = Counter()
        for (topic, queue_id), messages in logs.items():
            offsets = [m.queue_offset for m in messages]
            if offsets and offsets != list(range(offsets[0], offsets[0] + len(offsets))):
                wrong.append(f"{topic}:{queue_id} has the offsets {offsets}")
            for message in messages:
                if (entry := self.entries.get((topic, message.body))) is not None:
                    found[topic, message.body] += 1
                    wrong += self._misplaced(entry, message, queue_id, crash)
        for key, entry in self.entries.items():
            if (entry.topic, entry.queue_id) in unserved:
                continue
            if entry.kind == PLAIN and not found[key] and self.is_there(entry, crash):
                wrong.append(f"lost: {_told(entry)}")
            if entry.kind == PLAIN and found[key] > 1:
                wrong.append(f"stored {found[key]} times: {_told(entry)}")
            if (
                entry.kind == HALF
                and not found[key]
                and entry.decision == flags.TRANSACTION_COMMIT
                and self.is_there(entry, crash)
                and self.is_promised(entry.ended, crash)
            ):
                wrong.append(f"lost, though it was committed: {_told(entry)}")
            if found[key] and self.is_forbidden(entry, crash):
                wrong.append(f"it must not be there: {_told(entry)}")
        return wrong

    def _misplaced(
        self, entry: Entry, message: ReceivedMessage, queue_id: int, crash: Crash
    ) -> list[str]:
        if entry.since > crash.position:
            return [f"there before it was sent: {_told(entry)}"]
        if entry.kind != PLAIN or entry.offset is None:
            return []
        if (entry.queue_id, entry.offset) != (queue_id, message.queue_offset):
            return [f"at {queue_id}:{message.queue_offset}: {_told(entry)}"]
        return []

    def undelivered(self, logs: Logs, crash: Crash) -> list[Entry]:
        """What must still come."""
        found = _bodies(logs)
        return [
            entry
            for key, entry in self.entries.items()
            if entry.kind != PLAIN and not found[key] and self.is_delivered(entry, crash)
        ]

    def compare_at_end(self, logs: Logs, before: Logs, crash: Crash) -> list[str]:
        """What is wrong when everything that waited had time to come."""
        wrong = [f"it did not come: {_told(entry)}" for entry in self.undelivered(logs, crash)]
        found, known = _bodies(logs), _bodies(before)
        for key, count in found.items():
            entry = self.entries.get(key)
            if entry is None or entry.kind == PLAIN:
                continue
            if self.is_forbidden(entry, crash):
                wrong.append(f"it must not come: {_told(entry)}")
            if count > 1 + entry.crashes:
                wrong.append(f"it came {count} times: {_told(entry)}")
            if crash.is_kill and _by(entry.settled, crash) and count > known[key]:
                wrong.append(f"it came again, though that was written down: {_told(entry)}")
        for (topic, _), messages in logs.items():
            for message in messages:
                entry = self.entries.get((topic, message.body))
                if entry is not None and message.store_timestamp < entry.due_ms:
                    wrong.append(f"it came at {message.store_timestamp}: {_told(entry)}")
        return wrong

    def compare_offset(self, queue: Queue, offset: int | None, end: int, crash: Crash) -> list[str]:
        """What is wrong with where the group stands."""
        commits = [c for c in self.commits.get(queue, []) if c.since <= crash.position]
        if offset is None:
            offset = 0
        wrong = []
        if offset > end:
            wrong.append(f"the group stands at {offset} of {queue}, which ends at {end}")
        if offset not in (0, end) and offset not in {c.offset for c in commits}:
            wrong.append(f"the group stands at {offset} of {queue}, which it never committed")
        saved = [
            c.offset
            for c in commits
            if c.acked is not None and self._is_flushed(c.acked, crash) and crash.is_kill
        ]
        if saved and offset < min(saved[-1], end):
            wrong.append(f"the group stands at {offset} of {queue}, {saved[-1]} was saved")
        return wrong

    # -- going on -----------------------------------------------------------------------------

    def go_on(self, logs: Logs | None, crash: Crash, unserved: Collection[Queue] = ()) -> None:
        """After a crash: what the logs hold is all that there is now; None if nobody has looked.

        Nobody has looked into the queues that are not served.
        """
        found = _bodies(logs or {})
        for key, entry in list(self.entries.items()):
            is_hidden = logs is None or (entry.topic, entry.queue_id) in unserved
            is_gone = not is_hidden and entry.kind == PLAIN and not found[key]
            if entry.since > crash.position or is_gone:
                del self.entries[key]
                continue
            entry.crashes += 1
            for name in _LATER:
                at = getattr(entry, name)
                if at is not None and at > crash.position:
                    setattr(entry, name, None)
            if not self.is_there(entry, crash):
                entry.acked = None
            for name in ("ended", "recalled"):
                if not self.is_promised(getattr(entry, name), crash):
                    setattr(entry, name, None)
        # What was not saved by then is not saved by what the next process saves.
        self.commits = {
            queue: [
                c
                if c.acked is not None and self._is_flushed(c.acked, crash)
                else Commit(c.since, None, c.offset)
                for c in commits
                if c.since <= crash.position
            ]
            for queue, commits in self.commits.items()
        }
        self.marks = [m for m in self.marks if m.end <= crash.position]
        if not crash.is_kill:
            self.lost_power = True
            self._rebase()

    def note_places(self, offsets: Iterable[tuple[str, str, Mapping[int, int]]]) -> None:
        """Where groups stand after a start: it brought those back that were behind the logs."""
        for _, topic, places in offsets:
            for queue_id, offset in places.items():
                commits = self.commits.setdefault((topic, queue_id), [])
                if offset not in {c.offset for c in commits}:
                    commits.insert(0, Commit(0, None, offset))

    def _rebase(self) -> None:
        """The disk counts anew."""
        for entry in self.entries.values():
            for name in ("acked", *_LATER):
                if getattr(entry, name) is not None:
                    setattr(entry, name, 0)
            entry.since, entry.settled = 0, None
        self.commits = {
            queue: [Commit(0, None, c.offset) for c in commits]
            for queue, commits in self.commits.items()
        }
        self.marks = []


def _by(at: int | None, crash: Crash) -> bool:
    return at is not None and at <= crash.position


def _bodies(logs: Logs) -> Counter[tuple[str, bytes]]:
    return Counter(
        (topic, message.body) for (topic, _), messages in logs.items() for message in messages
    )


def _told(entry: Entry) -> str:
    given = {k: v for k, v in vars(entry).items() if v is not None and k not in ("body", "place")}
    return f"{entry.body[:40]!r} {given}"


def raise_for(wrong: Iterable[str], where: str) -> None:
    """Fails if anything is wrong."""
    found = list(wrong)
    assert not found, "\n  ".join([where, *found[:20]])
