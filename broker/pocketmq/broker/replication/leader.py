"""The leader of a broker set: holds back what it writes until its in-sync followers have it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from pocketmq.broker.replication.items import (
    ITEM_SIZE_MAX,
    Change,
    Item,
    Low,
    OffsetRow,
    Offsets,
    Records,
    encode_item,
)
from pocketmq.broker.replication.peer import Link, Peer, Place
from pocketmq.broker.replication.turns import Turn, Turns
from pocketmq.broker.store.log.queue_log import WRITTEN, OnStored, QueueLog, Waiter
from pocketmq.broker.store.log.segment import ENTRY, ENTRY_SIZE
from pocketmq.broker.store.metadata.common_tables import is_local_state
from pocketmq.broker.store.metadata.log_epochs import LogEpochs
from pocketmq.broker.store.store import MessageStore
from pocketmq.protocol.errors import OperatingError
from pocketmq.protocol.names import names
from pocketmq.protocol.requests.extensions.replication import ReplicateRequest
from pocketmq.runtime.clock import Clock, Timer
from pocketmq.runtime.listeners import Listeners

log = logging.getLogger("pocketmq.replication")

OFFSETS_DELAY_S = 0.02
"""So long committed offsets that nobody waits for may gather before followers are told."""

OWN_TOPICS = frozenset({names.HALF_TOPIC, names.OP_HALF_TOPIC, names.POP_JOURNAL_TOPIC})
"""Logs that only the leader itself reads, and so at once: what follows from them comes later."""


class Share(Protocol):
    """A share of the time, see `CatchUpShare`."""

    def took(self, elapsed_s: float, size: int) -> None:
        """Takes so many seconds, and so many bytes that were read, off the share."""

    async def turn(self) -> None:
        """Returns when there is a share."""


class _Joint:
    """Tells a waiter when both the flush and the followers are done; the worse news counts."""

    __slots__ = ("_error", "_left", "_on_stored")

    def __init__(self, on_stored: OnStored) -> None:
        self._on_stored, self._left = on_stored, 2
        self._error: OperatingError | None = None

    def flushed(self, error: OperatingError | None) -> None:
        if self._error is None:
            self._error = error
        self._done()

    def replicated(self, error: OperatingError | None) -> None:
        if error is not None:
            self._error = error
        self._done()

    def _done(self) -> None:
        self._left -= 1
        if not self._left:
            self._on_stored(self._error)


class Leader:
    """Gives each commit of a store to the followers, in order with all other changes.

    Args:
        store: of the broker; its committer gets this leader as `replicas` with `begin`.
        epochs: of the store's logs.
        clock: for time limits.
        epoch: of this leadership.
        waits: whether senders wait for the in-sync set (SYNC_MASTER).
        timeout_ms: how long they wait (slaveTimeout).

    Attributes:
        turns: those that followers do not have yet.
        peers: the followers by member id.
        changes: how many there were of metadata and committed offsets.
        caught_up: called with each follower that has everything that was there when it was sent
            the last of it; from then on it is to be required.
        in_step: called with each follower that has everything that is replicated: what was
            acknowledged before it was required is there, too.
        lost: called with each follower that is gone, and why.
        heard: called with a follower that has answered, and when that was sent to it.
        fenced: called with the later epoch that a follower knows.
        share: bounds the time that catching up takes from senders; None while nobody is served.
    """

    def __init__(
        self,
        store: MessageStore,
        epochs: LogEpochs,
        clock: Clock,
        epoch: int,
        *,
        waits: bool,
        timeout_ms: int,
        lease_ms: int,
    ) -> None:
        self._store, self._epochs, self._clock = store, epochs, clock.machine
        self.epoch, self.waits = epoch, waits
        self.timeout_ms, self._lease_ms = timeout_ms, lease_ms
        self.turns = Turns(self._shown)
        self.peers: dict[int, Peer] = {}
        self.caught_up = Listeners[[Peer]]()
        self.in_step = Listeners[[Peer]]()
        self.lost = Listeners[[Peer, str]]()
        self.heard = Listeners[[Peer, float]]()
        self.fenced = Listeners[[int]]()
        self.share: Share | None = None
        self._turn: Turn | None = None
        self._parts: list[list[bytes | memoryview]] = []
        self._sizes: list[int] = []
        self._changes: list[bytes | memoryview] = []
        self._offsets: dict[tuple[str, str, int], int] = {}
        self._offsets_timer: Timer | None = None
        self._late_timer: Timer | None = None
        self._is_due = False
        self._failure: OperatingError | None = None
        self.changes = 0

    def begin(self) -> None:
        """Holds back from now on what the store commits."""
        self._store.committer.replicas = self
        self._store.metadata.on_change = self.note_change

    def detach(self) -> None:
        """Has the store commit without this leader again: nobody appends for clients any more."""
        self._store.committer.replicas = None
        self._store.metadata.on_change = None

    def end(self, error: OperatingError) -> None:
        """Leads no more: who waits is told an error, and the followers are on their own.

        What is still appended stays hidden, and is not acknowledged, until `detach`.
        """
        self._failure = error
        for timer in (self._offsets_timer, self._late_timer):
            if timer is not None:
                timer.cancel()
        self._offsets_timer = self._late_timer = None
        for peer in list(self.peers.values()):
            peer.close(str(error))
        self.peers.clear()
        turn, self._turn = self._turn, None
        if turn is not None:
            self._fail(turn, error)
        self.turns.abandon(error)

    def _shown(self, queue_log: QueueLog) -> None:
        self._store.committer.appended.notify(queue_log)

    # -- what the store writes ----------------------------------------------------------------

    def will_write(self, queue_logs: Iterable[QueueLog]) -> None:
        """Notes that this epoch begins in some logs, before its first records are written there."""
        epoch, last = self.epoch, self._epochs.last
        starts = [
            (queue_log.number, epoch, queue_log.written_position)
            for queue_log in queue_logs
            if last(queue_log.number) != epoch
        ]
        if starts:
            self._epochs.begin(starts)

    def hold(
        self,
        queue_log: QueueLog,
        pieces: tuple[Sequence[bytes | memoryview], Sequence[bytes]],
        start: tuple[int, int],
        waiters: list[Waiter],
        *,
        is_flushed: bool,
    ) -> list[Waiter]:
        """See `Committer`."""
        turn = self._open_turn()
        turn.ends.append((queue_log, queue_log.written_position, queue_log.written_offset))
        if queue_log.topic in OWN_TOPICS:
            queue_log.show(queue_log.written_position, queue_log.written_offset)
        if self.peers:
            self._take_records(queue_log, pieces, start)
        if not self.waits:
            return waiters
        now: list[Waiter] = []
        for waiter in waiters:
            if waiter.durability is WRITTEN:
                now.append(waiter)
            elif is_flushed:
                joint = _Joint(waiter.on_stored)
                turn.waiters.append(joint.replicated)
                now.append(Waiter(joint.flushed, waiter.durability))
            else:
                turn.waiters.append(waiter.on_stored)
        return now

    def _open_turn(self) -> Turn:
        turn = self._turn
        if turn is None:
            turn = self._turn = Turn(self.turns.last + 1, self._clock.monotonic())
        return turn

    def _take_records(
        self,
        queue_log: QueueLog,
        pieces: tuple[Sequence[bytes | memoryview], Sequence[bytes]],
        start: tuple[int, int],
    ) -> None:
        data, entries = b"".join(pieces[0]), b"".join(pieces[1])
        position, offset = start
        view, index = memoryview(data), memoryview(entries)
        while view:
            size, count = _fitting(view, index)
            self._take(
                Records(
                    queue_log.number, self.epoch, position, offset, queue_log.last_timestamp,
                    index[: count * ENTRY_SIZE], view[:size],
                )
            )  # fmt: skip
            position, offset = position + size, offset + count
            view, index = view[size:], index[count * ENTRY_SIZE :]

    def _take(self, item: Item) -> None:
        pieces = encode_item(item)
        size = sum(map(len, pieces))
        if not self._parts or self._sizes[-1] + size > ITEM_SIZE_MAX:
            self._parts.append([])
            self._sizes.append(0)
        self._parts[-1] += pieces
        self._sizes[-1] += size
        if not isinstance(item, Records):
            self._changes += pieces

    def turn_ends(self) -> None:
        """Sends what was taken since the last call."""
        if self._offsets:
            self._take_offsets()
        turn, self._turn = self._turn, None
        if turn is None:
            return
        if self._failure is not None:
            self._fail(turn, self._failure)
            return
        self._is_due = False
        parts, self._parts, self._sizes = self._parts, [], []
        changes, self._changes = self._changes, []
        if self.peers:
            frames = [b"".join(part) for part in parts]
            grown = [queue_log.number for queue_log, _, _ in turn.ends]
            told = b"".join(changes)
            self.turns.add(turn)
            for peer in list(self.peers.values()):
                peer.take_turn(turn.number, frames or (b"",), told, grown)
        else:
            self.turns.add(turn)
        if turn.waiters and self._late_timer is None:
            self._look_for_late()

    @staticmethod
    def _fail(turn: Turn, error: OperatingError) -> None:
        waiters, turn.waiters = turn.waiters, []
        for on_stored in waiters:
            on_stored(error)

    def _look_for_late(self) -> None:
        """Arms the timer for the oldest turn that somebody waits for."""
        self._late_timer = None
        oldest_s = self.turns.oldest_s()
        if oldest_s is None:
            return
        now_s, timeout_s = self._clock.monotonic(), self.timeout_ms / 1000
        if oldest_s + timeout_s <= now_s:
            self.turns.expire(now_s - timeout_s, self.timeout_ms)
            oldest_s = self.turns.oldest_s()
            if oldest_s is None:
                return
        wait_s = max(oldest_s + timeout_s - now_s, 0.001)
        self._late_timer = self._clock.call_later(wait_s, self._look_for_late)

    # -- all other changes --------------------------------------------------------------------

    def note_change(self, method: str, arguments: tuple[object, ...]) -> None:
        """Takes a change of the metadata, unless it concerns this directory only."""
        if method in ("set_state", "remove_state") and is_local_state(str(arguments[0])):
            return
        if self._failure is not None:
            return
        self.changes += 1
        self._open_turn()
        if self.peers:
            self._take(Change(method, arguments))
        self._schedule()

    def note_offset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Takes an offset that a group has committed."""
        self.changes += 1
        self._offsets[group, topic, queue_id] = offset
        if self._offsets_timer is None:
            self._offsets_timer = self._clock.call_later(OFFSETS_DELAY_S, self._tell_offsets)

    def _tell_offsets(self) -> None:
        self._offsets_timer = None
        self.turn_ends()

    def _take_offsets(self) -> None:
        rows: list[OffsetRow] = [(*key, offset) for key, offset in self._offsets.items()]
        self._offsets.clear()
        self._open_turn()
        if self.peers:
            self._take(Offsets(rows))

    def note_low(self, queue_log: QueueLog) -> None:
        """Takes that retention has removed the oldest records of a log."""
        self._open_turn()
        if self.peers:
            self._take(Low(queue_log.number, queue_log.segments[0].base_position))
        self._schedule()

    def _schedule(self) -> None:
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._end_turn)

    def _end_turn(self) -> None:
        self._is_due = False
        if self._store.committer.replicas is self:
            self.turn_ends()

    @property
    def is_replicated(self) -> bool:
        """Whether the in-sync set has everything that was changed so far."""
        return self._turn is None and not self._offsets and self.turns.replicated >= self.turns.last

    def when_replicated(self, on_stored: OnStored) -> None:
        """Calls back when the in-sync set has everything that was changed so far."""
        if self.is_replicated:
            on_stored(None)
            return
        self.when_answered(on_stored)

    def when_answered(self, on_stored: OnStored) -> None:
        """Calls back when all of the in-sync set have answered what they are sent after this call.

        Then they live, and have everything that was changed before.
        """
        self._open_turn().waiters.append(on_stored)
        self._schedule()

    # -- followers ----------------------------------------------------------------------------

    def header(self, sequence: int, turn: int) -> ReplicateRequest:
        """Makes the header of a frame; turn 0 of sequence 0 stands for the newest turn."""
        return ReplicateRequest(
            epoch=self.epoch,
            sequence=sequence,
            turn=turn if sequence else self.turns.last,
            shown=self.turns.replicated,
            lease_ms=self._lease_ms,
        )

    def add_peer(
        self, member_id: int, address: str, link: Link, places: Mapping[int, Place]
    ) -> Peer:
        """Adds a follower, which is to `catch_up`; an earlier one of its id is gone."""
        self.turn_ends()  # what is being gathered was not gathered for it
        before = self.peers.pop(member_id, None)
        if before is not None:
            before.close(f"member {member_id} has joined again")
            self.lost_peer(before, "it has joined again")
        peer = Peer(
            member_id, address, link, self._store, self._epochs, self._clock, self.header, self,
            places,
        )  # fmt: skip
        self.peers[member_id] = peer
        return peer

    def keep_alive(self) -> None:
        """Tells all followers that the leader is there."""
        for peer in list(self.peers.values()):
            peer.keep_alive()

    def acknowledged(self, peer: Peer, turn: int) -> None:
        """See `PeerEvents`."""
        is_first = not self.turns.acknowledged(peer.member_id)
        self.turns.acknowledge(peer.member_id, turn)
        if peer.is_in_step:
            return
        if is_first:
            self.caught_up.notify(peer)
        if turn >= self.turns.replicated:
            peer.is_in_step = True
            self.in_step.notify(peer)

    def answered(self, peer: Peer, sent_s: float) -> None:
        """See `PeerEvents`."""
        self.heard.notify(peer, sent_s)

    async def wait_for_share(self) -> None:
        """See `PeerEvents`."""
        if self.share is not None:
            await self.share.turn()

    def copied(self, elapsed_s: float, size: int) -> None:
        """See `PeerEvents`."""
        if self.share is not None:
            self.share.took(elapsed_s, size)

    def fenced_by(self, epoch: int) -> None:
        """Tells that a follower knows of a later leader."""
        self.fenced.notify(epoch)

    def lost_peer(self, peer: Peer, reason: str) -> None:
        """See `PeerEvents`."""
        if self.peers.get(peer.member_id) is peer:
            del self.peers[peer.member_id]
        self.turns.forget(peer.member_id)
        self.lost.notify(peer, reason)

    def drop_silent(self, before_s: float) -> None:
        """Drops the followers that were not heard of since a time."""
        for peer in list(self.peers.values()):
            if peer.heard_s < before_s:
                peer.close("it was silent for too long")
                self.lost_peer(peer, "it was silent for too long")


def _fitting(data: memoryview, entries: memoryview) -> tuple[int, int]:
    """Size and count of the records that fit into one item, at least one."""
    if len(data) <= ITEM_SIZE_MAX:
        return len(data), len(entries) // ENTRY_SIZE
    size = count = 0
    for _, record_size, _ in ENTRY.iter_unpack(entries):
        if count and size + record_size > ITEM_SIZE_MAX:
            break
        size += record_size
        count += 1
    return size, count


def required_members(sets: Iterable[Iterable[int]], leader_id: int) -> frozenset[int]:
    """The followers of several in-sync sets together."""
    return frozenset(member for members in sets for member in members if member != leader_id)
