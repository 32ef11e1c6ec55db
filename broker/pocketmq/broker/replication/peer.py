"""One follower as its leader sees it: what it was sent, what it has, and how it catches up."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol

from pocketmq.broker.replication.items import (
    ITEM_SIZE_MAX,
    Begin,
    Item,
    Live,
    Low,
    Records,
    Table,
    TablesEnd,
    encode_item,
)
from pocketmq.broker.store.log.segment import ENTRY_SIZE
from pocketmq.broker.store.log_ends import ends_of
from pocketmq.broker.store.metadata.common_tables import read_common_tables
from pocketmq.broker.store.metadata.log_epochs import LogEpochs
from pocketmq.broker.store.store import MessageStore
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import OperatingError
from pocketmq.protocol.requests.extensions.replication import ReplicateRequest, ReplicateResponse
from pocketmq.protocol.wire.command import Command
from pocketmq.runtime.clock import Clock

log = logging.getLogger("pocketmq.replication")

Answer = Command | OperatingError

WINDOW_SIZE = 16 * 1024 * 1024
"""Bytes sent to a follower that it has not acknowledged; what follows waits here."""

BACKLOG_SIZE_MAX = 64 * 1024 * 1024
"""Bytes that wait for a follower; one for which more wait has to begin anew, from the disk."""

SWITCH_SIZE_MAX = 4 * 1024 * 1024
"""A follower that lacks no more than so many bytes gets them in one turn, and from then on all."""

ROUNDS_MAX = 64
"""Rounds in which a follower catches up; one that still lacks much then is too slow."""


class Link(Protocol):
    """A connection to a follower."""

    def replicate(
        self, request: ReplicateRequest, body: bytes, on_answer: Callable[[Answer], object]
    ) -> None:
        """Sends a frame; the callback gets the answer or what ended the call.

        Raises:
            OperatingError: the connection is closed.
        """

    def close(self, reason: str) -> None:
        """Closes the connection."""


class Place(NamedTuple):
    """Up to where a follower has a log."""

    position: int
    offset: int


class PeerEvents(Protocol):
    """What a leader wants to know of its followers."""

    @property
    def waits(self) -> bool:
        """Whether senders wait for the followers."""

    def acknowledged(self, peer: Peer, turn: int) -> None:
        """A follower has all turns up to this one."""

    def answered(self, peer: Peer, sent_s: float) -> None:
        """A follower has answered what was sent at a time."""

    async def wait_for_share(self) -> None:
        """Returns when a follower that catches up may be sent more."""

    def copied(self, elapsed_s: float, size: int) -> None:
        """So many bytes were read for a follower that catches up, in so many seconds."""

    def fenced_by(self, epoch: int) -> None:
        """A follower knows of a later epoch."""

    def lost_peer(self, peer: Peer, reason: str) -> None:
        """A follower is gone; it may come back by itself."""


class Peer:
    """Sends a follower what it lacks, and then each turn.

    Args:
        member_id: of the follower.
        address: where clients reach it.
        link: the connection to it.
        store, epochs: of the leader.
        clock: for time limits.
        header: makes the header of a frame for a turn.
        events: told of answers.
        places: up to where the follower has each log, by number.

    Attributes:
        is_live: whether it gets each turn.
        is_in_step: whether it has everything that is acknowledged, and may be in the in-sync set.
        turn: up to here it has all turns; 0 while it catches up.
        sent_size: bytes that it was sent.
        is_gone: whether nothing is sent any more.
    """

    def __init__(
        self,
        member_id: int,
        address: str,
        link: Link,
        store: MessageStore,
        epochs: LogEpochs,
        clock: Clock,
        header: Callable[[int, int], ReplicateRequest],
        events: PeerEvents,
        places: Mapping[int, Place],
    ) -> None:
        self.member_id, self.address = member_id, address
        self._link, self._store, self._epochs = link, store, epochs
        self._clock, self._header, self._events = clock.machine, header, events
        self._places = dict(places)
        self._grown: dict[int, None] = {}
        self._has_tables = False
        self._later: list[bytes] = []  # changes that stand behind the tables
        self._waiting: deque[tuple[int, bytes]] = deque()
        self._waiting_size = self._unacknowledged = 0
        self._sequence = 0
        self._room: asyncio.Future[None] | None = None
        self._first = 1  # the frames before this one are answered
        self._answered_turns: dict[int, int] = {}  # of those behind it, by sequence
        self.is_live = self.is_in_step = self.is_gone = False
        self.turn = self.sent_size = 0
        self.heard_s = self._clock.monotonic()

    @property
    def behind_size(self) -> int:
        """Bytes that the follower was not sent, or has not acknowledged yet."""
        size = self._unacknowledged + self._waiting_size
        if self.is_live:
            return size
        ends = ends_of(self._store).items()
        return size + sum(max(end - self._place(number).position, 0) for number, end in ends)

    # -- what the leader does -----------------------------------------------------------------

    def take_turn(
        self, turn: int, frames: Iterable[bytes], changes: bytes, grown: Iterable[int]
    ) -> None:
        """Takes what a turn has written.

        Args:
            turn: its number.
            frames: everything, for a follower that is live.
            changes: what is not in the logs.
            grown: the numbers of the logs that have grown.
        """
        if self.is_gone:
            return
        if self.is_live:
            parts = list(frames)
            for part in parts[:-1]:
                self._put(turn - 1, part)
            self._put(turn, parts[-1])
            return
        self._grown.update(dict.fromkeys(grown))
        if changes and self._has_tables:
            self._put(0, changes)
        elif changes:
            self._later.append(changes)

    def keep_alive(self) -> None:
        """Tells the follower that the leader is there, and up to where all have everything."""
        if not self.is_gone and not self._waiting:
            self._send(self.turn, b"")

    def close(self, reason: str) -> None:
        """Sends nothing any more."""
        if self.is_gone:
            return
        self.is_gone = True
        self._waiting.clear()
        self._wake()
        self._link.close(reason)

    # -- catching up --------------------------------------------------------------------------

    async def catch_up(self) -> None:
        """Sends the metadata and what the follower lacks of each log, then makes it live."""
        for name, rows in read_common_tables(self._store.metadata):
            await self._send_copy(Table(name, rows))
        await self._send_copy(TablesEnd())
        self._has_tables = True
        later, self._later = self._later, []
        for changes in later:
            self._put(0, changes)
        numbers = [known.number for known in self._store.logs.table]
        for _ in range(ROUNDS_MAX):
            for number in numbers:
                await self._copy(number)
                if self.is_gone:
                    return
            if self._lacks() <= SWITCH_SIZE_MAX:
                self._go_live()
                return
            numbers, self._grown = list(self._grown), {}
        self._lose("it does not catch up: messages come faster than it takes them")

    def _lacks(self) -> int:
        """Bytes of the logs that have grown which the follower was not sent."""
        size = 0
        for number in self._grown:
            known = self._store.logs.table.by_number(number)
            queue_log = known and self._store.find_log(known.topic, known.queue_id)
            if queue_log is not None:
                size += queue_log.written_position - self._place(number).position
        return size

    def _place(self, number: int) -> Place:
        return self._places.get(number, Place(0, 0))

    async def _copy(self, number: int) -> None:
        await self._send_low(number)
        while not self.is_gone:
            await self._events.wait_for_share()
            begun_s = self._clock.monotonic()
            items = self._next_of(number)
            if not items:
                return
            size = sum(len(item.data) for item in items if isinstance(item, Records))
            self._events.copied(self._clock.monotonic() - begun_s, size)
            for item in items:
                await self._send_copy(item)

    async def _send_low(self, number: int) -> None:
        """Tells where an open log begins: retention went on while the follower was away."""
        known = self._store.logs.table.by_number(number)
        if known is None or number not in self._places or self._store.logs.is_at_rest(known):
            return
        queue_log = self._store.find_log(known.topic, known.queue_id)
        if queue_log is not None and queue_log.segments and queue_log.segments[0].base_position:
            await self._send_copy(Low(number, queue_log.segments[0].base_position))

    def _next_of(self, number: int) -> list[Item]:
        """What a follower is to be sent next of a log; nothing if it was sent all."""
        known = self._store.logs.table.by_number(number)
        if known is None:
            return []
        position, offset = place = self._place(number)
        checkpoint = known.checkpoint
        if (
            checkpoint is not None
            and self._store.logs.is_at_rest(known)
            and checkpoint.position == position
        ):
            return []
        queue_log = self._store.find_log(known.topic, known.queue_id)
        if queue_log is None or not queue_log.segments:
            return []
        items: list[Item] = []
        first = queue_log.segments[0]
        if position < first.base_position:
            position, offset = place = Place(first.base_position, first.base_offset)
            items.append(Begin(number, *place))
        epoch, epoch_end = self._epochs.span_at(number, position)
        size_max = ITEM_SIZE_MAX
        if epoch_end is not None:
            size_max = min(size_max, epoch_end - position)
        data, entries = queue_log.read_written(position, offset, size_max)
        if data:
            count = len(entries) // ENTRY_SIZE
            timestamp = queue_log.written_timestamp(offset + count - 1)
            items.append(Records(number, epoch, position, offset, timestamp, entries, data))
            place = Place(position + len(data), offset + count)
        self._places[number] = place
        return items

    async def _send_copy(self, item: Item) -> None:
        while not self.is_gone and self._unacknowledged > WINDOW_SIZE:
            self._room = asyncio.get_running_loop().create_future()
            await self._room
        if not self.is_gone:
            self._send(0, b"".join(encode_item(item)))
            await self._clock.sleep(0)  # others have their turn

    def _go_live(self) -> None:
        """Sends the rest without a pause; what is written from now on comes turn by turn."""
        grown, self._grown = self._grown, {}
        for number in grown:
            while items := self._next_of(number):
                for item in items:
                    self._put(0, b"".join(encode_item(item)))
        self.is_live = True
        self._places.clear()
        turn = self._header(0, 0).turn
        self._put(turn, b"".join(encode_item(Live())))

    # -- sending ------------------------------------------------------------------------------

    @property
    def _may_send(self) -> bool:
        """Whether there is room for a frame.

        While no sender waits, turns gather until the follower has answered the frame before: the
        more there is to do, the more of them share a frame.
        """
        if self.is_live and not self._events.waits:
            return not self._unacknowledged
        return self._unacknowledged <= WINDOW_SIZE

    def _put(self, turn: int, body: bytes) -> None:
        if not self._waiting and self._may_send:
            self._send(turn, body)
            return
        self._waiting.append((turn, body))
        self._waiting_size += len(body)
        if self._waiting_size > BACKLOG_SIZE_MAX:
            self._lose(f"it lags by more than {BACKLOG_SIZE_MAX} bytes")

    def _send(self, turn: int, body: bytes) -> None:
        self._sequence += 1
        sequence, size, sent_s = self._sequence, len(body), self._clock.monotonic()

        def on_answer(answer: Answer) -> None:
            self._answered(sequence, turn, size, sent_s, answer)

        self._unacknowledged += size
        self.sent_size += size
        try:
            self._link.replicate(self._header(sequence, turn), body, on_answer)
        except OperatingError as e:
            self._lose(str(e))

    def _answered(self, sequence: int, turn: int, size: int, sent_s: float, answer: Answer) -> None:
        if self.is_gone:
            return
        if isinstance(answer, OperatingError):
            self._lose(str(answer))
            return
        if answer.code != ResponseCode.SUCCESS:
            told = answer.read(ReplicateResponse).epoch
            if answer.code == ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH:
                self._events.fenced_by(told)
            self._lose(answer.remark or f"it refuses with code {answer.code}")
            return
        self.heard_s = self._clock.monotonic()
        self._unacknowledged -= size
        self._events.answered(self, sent_s)
        self._note(sequence, turn)
        while self._waiting and self._may_send and not self.is_gone:
            self._send(*self._gathered())
        if self._unacknowledged <= WINDOW_SIZE:
            self._wake()

    def _gathered(self) -> tuple[int, bytes]:
        """Takes what waits, as much as one frame is to have; returns its turn, and itself."""
        waiting = self._waiting
        turn, body = waiting.popleft()
        parts, size = [body], len(body)
        while waiting and size + len(waiting[0][1]) <= ITEM_SIZE_MAX:
            later, body = waiting.popleft()
            parts.append(body)
            turn, size = max(turn, later), size + len(body)
        self._waiting_size -= size
        return turn, b"".join(parts)

    def _note(self, sequence: int, turn: int) -> None:
        """Notes an answer; a turn is there when all frames before it are, for flushes overtake."""
        answered, before = self._answered_turns, self.turn
        answered[sequence] = turn
        while self._first in answered:
            self.turn = max(self.turn, answered.pop(self._first))
            self._first += 1
        if self.turn > before:
            self._events.acknowledged(self, self.turn)

    def _wake(self) -> None:
        room, self._room = self._room, None
        if room is not None and not room.done():
            room.set_result(None)

    def _lose(self, reason: str) -> None:
        if not self.is_gone:
            self.close(reason)
            self._events.lost_peer(self, reason)
