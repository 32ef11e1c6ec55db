"""Reads the dead letters of a group, and picks those that a selection names."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Mapping
from functools import cached_property

from pocketmq.broker.appending.stored_message import StoredMessage, stored_in
from pocketmq.broker.redrive.marks import LetterMarks
from pocketmq.broker.store.log.queue_log import QueueLog
from pocketmq.broker.store.store import MessageStore
from pocketmq.broker.topics.topics import TopicTable
from pocketmq.protocol import flags
from pocketmq.protocol.bodies.redrives import LetterSelection, LetterState
from pocketmq.protocol.errors import ContentError, UsageError
from pocketmq.protocol.filters import Expression, parse
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.compression import decompress
from pocketmq.protocol.messages.ids import offset_msg_id
from pocketmq.protocol.names import names
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.slices import next_slice

log = logging.getLogger("pocketmq.broker")

LETTERS_PER_SLICE = 64
"""Dead letters that one turn of the loop reads."""

SIZE_PER_SLICE = 1024 * 1024
"""Bytes of them."""

SCANNED_MAX = 2_000_000
"""Dead letters that are looked at for one selection."""

SELECTED_IDS_MAX = 10_000
"""Message ids that a selection may name."""


class DeadLetter:
    """A message that its group has given up on.

    Args:
        group: the group.
        queue_id, number: of the log that holds the message.
        message: as it is stored.
        state: what became of it.
    """

    __slots__ = ("__dict__", "group", "message", "number", "queue_id", "state")

    def __init__(
        self, group: str, queue_id: int, number: int, message: StoredMessage, state: LetterState
    ) -> None:
        self.group, self.queue_id, self.number = group, queue_id, number
        self.message, self.state = message, state

    @property
    def offset(self) -> int:
        """Where it is in its queue."""
        return self.message.queue_offset

    @cached_property
    def properties(self) -> dict[str, str]:
        """The properties, by name."""
        return props.decode(self.message.properties.decode("utf-8", "replace"))

    @cached_property
    def offset_id(self) -> str:
        """The id that names the place of the dead letter."""
        return offset_msg_id(self.message.store_host, self.message.physical_offset)

    @property
    def message_id(self) -> str:
        """The id that the sender gave to the message, or else the one of its place."""
        return self.properties.get(props.UNIQ_KEY) or self.offset_id

    @cached_property
    def origin(self) -> str | None:
        """The topic that the message was first sent to; None if it does not say so."""
        return names.origin_topic(self.group, self.properties)

    @property
    def redrive_count(self) -> int:
        """How often the message was sent again before it came here."""
        text = self.properties.get(props.REDRIVE_COUNT, "")
        return int(text) if text.isascii() and text.isdecimal() else 0

    def body(self) -> bytes:
        """The body as its sender made it.

        Raises:
            ContentError: it cannot be unpacked.
        """
        message = self.message
        if message.sys_flag & flags.COMPRESSED:
            return decompress(message.body, message.sys_flag)
        return bytes(message.body)


class LetterFilter:
    """Tells whether a dead letter is among those that a selection names.

    Args:
        selection: which.

    Raises:
        UsageError: it cannot be understood.
    """

    def __init__(self, selection: LetterSelection) -> None:
        if len(selection.message_ids) > SELECTED_IDS_MAX:
            raise UsageError(
                f"{len(selection.message_ids)} message ids are given, {SELECTED_IDS_MAX} are the "
                f"most: select by a condition, or do it in several steps"
            )
        self._selection = selection
        self._ids = frozenset(selection.message_ids)
        self._tags = {tag.strip() for tag in (selection.tags or "").split("||")} - {"", "*"}
        self._where: Expression | None = None
        if selection.where:
            self._where = parse(selection.where, strict=True)

    def passes(self, letter: DeadLetter) -> bool:
        """Whether a dead letter is selected."""
        selection, properties = self._selection, letter.properties
        return (
            letter.state in selection.states
            and (not self._ids or bool(self._ids & _ids_of(letter)))
            and (selection.topic is None or letter.origin == selection.topic)
            and (selection.key is None or selection.key in properties.get(props.KEYS, "").split())
            and (not self._tags or properties.get(props.TAGS) in self._tags)
            and (selection.error is None or selection.error in properties.get(props.LAST_ERROR, ""))
            and (selection.attempts_min is None
                 or letter.message.reconsume_times >= selection.attempts_min)
            and (selection.since_ms is None
                 or letter.message.store_timestamp >= selection.since_ms)
            and (selection.until_ms is None or letter.message.store_timestamp < selection.until_ms)
            and (self._where is None or self._where.matches(properties))
        )  # fmt: skip


def _ids_of(letter: DeadLetter) -> set[str | None]:
    properties = letter.properties
    return {
        letter.offset_id,
        properties.get(props.UNIQ_KEY),
        properties.get(props.ORIGIN_MESSAGE_ID),
    }


class Letters:
    """The dead letters of a broker.

    Args:
        store, topics: of the broker.
        marks: what became of them.
        clock: gives others their turns.
    """

    def __init__(
        self, store: MessageStore, topics: TopicTable, marks: LetterMarks, clock: Clock
    ) -> None:
        self._store, self._topics = store, topics
        self.marks, self._clock = marks, clock

    def groups(self) -> list[str]:
        """The groups that have a topic of dead letters, sorted."""
        prefix = names.DLQ_PREFIX
        return sorted(
            topic.topic_name.removeprefix(prefix)
            for topic in self._topics
            if topic.topic_name.startswith(prefix)
        )

    def logs(self, group: str) -> dict[int, QueueLog]:
        """The logs of a group's dead letters by queue id; those that nobody wrote to are left out.

        Raises:
            StoreError: one cannot be opened now.
        """
        topic = self._topics.get(names.dlq_topic(group))
        if topic is None:
            return {}
        found = {
            queue_id: self._store.find_log(topic.topic_name, queue_id)
            for queue_id in range(topic.queue_nums_max)
        }
        return {queue_id: queue_log for queue_id, queue_log in found.items() if queue_log}

    async def selected(
        self,
        group: str,
        selection: LetterSelection,
        ends: Mapping[str, int],
        start: tuple[int, int] = (0, 0),
        scanned: list[int] | None = None,
    ) -> AsyncGenerator[DeadLetter, None]:
        """Yields the dead letters that are selected, in order of queues and offsets.

        Args:
            group: whose.
            selection: which.
            ends: up to where, by queue id as text.
            start: queue id and offset to begin with.
            scanned: gets the number of messages that are looked at, slice by slice.

        Raises:
            UsageError: the selection cannot be understood, or there are too many to look at.
            OSError, StoreError: the disk cannot be read now.
        """
        chosen, left = LetterFilter(selection), SCANNED_MAX
        for queue_id, queue_log in self.logs(group).items():
            begin, end = _range_of(queue_id, queue_log, selection, ends, start)
            while (begin := max(begin, queue_log.min_offset)) < end:  # retention may go on
                following = begin
                part = queue_log.read(begin, min(LETTERS_PER_SLICE, end - begin), SIZE_PER_SLICE)
                for message in stored_in(part, begin):
                    following = message.queue_offset + 1
                    state = self.marks.state_of(queue_log.number, message.queue_offset)
                    letter = DeadLetter(group, queue_id, queue_log.number, message, state)
                    if chosen.passes(letter):
                        yield letter
                if following < part.next_offset:
                    log.error("the dead letter at offset %d of %s queue %d is damaged on the disk",
                              following, queue_log.topic, queue_id)  # fmt: skip
                    following += 1
                left -= following - begin
                if left < 0:
                    raise UsageError(
                        f"more than {SCANNED_MAX} dead letters would have to be looked at: select "
                        f"some by time or offset"
                    )
                if scanned is not None:
                    scanned.append(following - begin)
                begin = following
                await next_slice(self._clock.machine)


def _range_of(
    queue_id: int,
    queue_log: QueueLog,
    selection: LetterSelection,
    ends: Mapping[str, int],
    start: tuple[int, int],
) -> tuple[int, int]:
    """The offsets of a queue from one to before another, between which a selection lies."""
    if selection.queue_id not in (None, queue_id) or queue_id < start[0]:
        return 0, 0
    begin = selection.from_offset or 0
    if queue_id == start[0]:
        begin = max(begin, start[1])
    if selection.since_ms is not None:
        begin = max(begin, queue_log.offset_at_time(selection.since_ms))
    end = min(ends.get(str(queue_id), 0), queue_log.max_offset)
    return begin, end if selection.to_offset is None else min(end, selection.to_offset)


def text_of(letter: DeadLetter, size_max: int) -> str:
    """The body of a dead letter as text, cut; bytes that are no UTF-8 are replaced."""
    try:
        body = letter.body()
    except ContentError as e:
        return f"({e})"
    return body[:size_max].decode("utf-8", "replace")
