"""What clients of a broker set did and saw, and what of that no failover may break.

A history is written outside of the brokers, by clock readings that all clients share (the machine's
monotonic clock). Each check returns the violations that it finds, as sentences. Pure: no sockets,
no clock.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice, pairwise
from math import inf
from typing import NamedTuple

VIOLATIONS_SHOWN_MAX = 5
"""Of each check; further ones are counted."""

Place = tuple[int, int]
"""(queue id, offset)."""


class Send(NamedTuple):
    """One send of a client, from before to after.

    Attributes:
        client: which; a client sends one message after the other.
        content: of the message; no two messages have the same.
        begun_s, ended_s: around the send with all its retries.
        attempts: how often the client has sent the message.
        place: where the broker says that it is; None if the send failed, and nobody knows.
        is_ok: whether it was answered with SEND_OK.
    """

    client: str
    content: str
    begun_s: float
    ended_s: float
    attempts: int
    place: Place | None
    is_ok: bool


class Read(NamedTuple):
    """A message that a reader has got."""

    reader: str
    place: Place
    content: str


class OffsetCommit(NamedTuple):
    """An offset that a group has committed, and that was answered."""

    queue_id: int
    offset: int
    begun_s: float
    ended_s: float


class OffsetRead(NamedTuple):
    """A committed offset as it was answered to somebody."""

    queue_id: int
    offset: int
    begun_s: float
    ended_s: float


@dataclass
class History:
    """Everything that clients know of one broker set.

    Attributes:
        sends, reads, commits, offset_reads: in any order.
        consumed: the contents that each group was given.
        forgotten: when all in-sync members had been killed and one was started that leads then:
            offsets that were committed before may be as they were last saved.
        final: what is in each place in the end.
        stored: the bytes of all records in the end by log, of each member.
    """

    sends: list[Send] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    commits: list[OffsetCommit] = field(default_factory=list)
    offset_reads: list[OffsetRead] = field(default_factory=list)
    forgotten: list[float] = field(default_factory=list)
    consumed: dict[str, set[str]] = field(default_factory=dict)
    final: dict[Place, str] = field(default_factory=dict)
    stored: dict[str, Mapping[str, bytes]] = field(default_factory=dict)

    @property
    def acknowledged(self) -> list[Send]:
        """The sends that were answered with SEND_OK."""
        return [send for send in self.sends if send.is_ok]


def violations(history: History) -> list[str]:
    """Everything that is wrong with a history."""
    found: list[str] = []
    for check in (
        lost, wrong_contents, taken_back, gaps, invented, repeated, disordered, unread,
        offsets_gone, differing_members,
    ):  # fmt: skip
        sentences = iter(check(history))
        found += islice(sentences, VIOLATIONS_SHOWN_MAX)
        further = sum(1 for _ in sentences)
        if further:
            found.append(f"… and {further} more of these ({check.__name__})")
    return found


def lost(history: History) -> Iterator[str]:
    """Acknowledged messages that are nowhere."""
    there = set(history.final.values())
    for send in history.acknowledged:
        if send.content not in there:
            yield f"{send.content} was acknowledged at {send.place} and is nowhere"


def wrong_contents(history: History) -> Iterator[str]:
    """Acknowledged messages that are not in the place of which the client was told."""
    told: dict[Place, Send] = {}
    for send in history.acknowledged:
        assert send.place is not None
        before = told.setdefault(send.place, send)
        if before is not send:
            yield f"{send.place} was given to {before.content} and to {send.content}"
        now = history.final.get(send.place)
        if now != send.content:
            yield f"{send.content} was acknowledged at {send.place}, where {now} is"


def taken_back(history: History) -> Iterator[str]:
    """Messages that a reader has seen in a place in which another one is in the end."""
    for read in dict.fromkeys(history.reads):
        now = history.final.get(read.place)
        if now != read.content:
            yield f"{read.reader} has read {read.content} at {read.place}, where {now} is at last"


def gaps(history: History) -> Iterator[str]:
    """Queues whose offsets do not follow each other."""
    offsets: dict[int, list[int]] = defaultdict(list)
    for queue_id, offset in sorted(history.final):
        offsets[queue_id].append(offset)
    for queue_id, have in offsets.items():
        if have != list(range(len(have))):
            yield f"queue {queue_id} has {len(have)} messages, up to offset {have[-1]}"


def invented(history: History) -> Iterator[str]:
    """Messages that nobody has sent."""
    sent = {send.content for send in history.sends}
    for place, content in history.final.items():
        if content not in sent:
            yield f"nobody has sent {content}, which is at {place}"


def repeated(history: History) -> Iterator[str]:
    """Messages that are there more often than their client has sent them."""
    attempts = {send.content: send.attempts for send in history.sends}
    for content, count in Counter(history.final.values()).items():
        if count > attempts.get(content, count):
            yield f"{content} was sent {attempts[content]} times and is there {count} times"


def disordered(history: History) -> Iterator[str]:
    """Messages that stand before one whose acknowledgement came before they were sent."""
    queues: dict[int, list[Send]] = defaultdict(list)
    for send in history.acknowledged:
        assert send.place is not None
        queues[send.place[0]].append(send)
    for sends in queues.values():
        sends.sort(key=_offset, reverse=True)
        first: Send | None = None  # the one that was acknowledged first, of those behind
        for send in sends:
            if first is not None and first.ended_s < send.begun_s:
                yield (
                    f"{first.content} was acknowledged at {first.place} before {send.content} was "
                    f"sent, which got {send.place}"
                )
            if first is None or send.ended_s < first.ended_s:
                first = send


def unread(history: History) -> Iterator[str]:
    """Acknowledged messages that a group never got."""
    for group, contents in history.consumed.items():
        for send in history.acknowledged:
            if send.content not in contents:
                yield f"{group} never got {send.content}, acknowledged at {send.place}"


def offsets_gone(history: History) -> Iterator[str]:
    """Committed offsets that went back: behind an acknowledged commit, or a read before."""
    known: list[OffsetCommit | OffsetRead] = [*history.commits, *history.offset_reads]
    known.sort(key=lambda event: event.ended_s)
    for queue_id in sorted({event.queue_id for event in known}):
        events = [event for event in known if event.queue_id == queue_id]
        ended_s = [event.ended_s for event in events]
        for read in history.offset_reads:
            if read.queue_id != queue_id:
                continue
            since_s = max((s for s in history.forgotten if s < read.ended_s), default=-inf)
            counted = events[bisect_right(ended_s, since_s) : bisect_left(ended_s, read.begun_s)]
            highest = max((event.offset for event in counted), default=-1)
            if read.offset < highest:
                yield f"the committed offset of queue {queue_id} was {highest}, then {read.offset}"


def differing_members(history: History) -> Iterator[str]:
    """Logs whose records are not the same in all members."""
    members = sorted(history.stored)
    for one, other in pairwise(members):
        mine, theirs = history.stored[one], history.stored[other]
        for log in sorted({*mine, *theirs}):
            a, b = mine.get(log, b""), theirs.get(log, b"")
            if a != b:
                at = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), None)
                yield (
                    f"{log} has {len(a)} bytes in {one} and {len(b)} in {other}, and differs from "
                    f"byte {min(len(a), len(b)) if at is None else at} on"
                )


def _offset(send: Send) -> int:
    assert send.place is not None
    return send.place[1]


def summary(history: History) -> dict[str, int]:
    """How much there was to check."""
    return {
        "sends": len(history.sends),
        "acknowledged": len(history.acknowledged),
        "failed": sum(1 for send in history.sends if send.place is None),
        "doubtful": sum(1 for send in history.sends if send.place is not None and not send.is_ok),
        "retried": sum(1 for send in history.sends if send.attempts > 1),
        "stored": len(history.final),
        "read": len(history.reads),
        "consumed": sum(map(len, history.consumed.values())),
        "offset commits": len(history.commits),
        "offset reads": len(history.offset_reads),
    }


def contents_of(records: Iterable[tuple[Place, str]]) -> dict[Place, str]:
    """The contents by place.

    Raises:
        AssertionError: a place comes twice.
    """
    found: dict[Place, str] = {}
    for place, content in records:
        assert place not in found, f"{place} is there twice"
        found[place] = content
    return found
