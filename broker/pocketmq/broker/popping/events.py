"""What happens to popped messages, as the journal of pops has it.

Each event is an array in MessagePack; the first item says which event it is. A queue is named once
and then goes by its number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import msgspec

from pocketmq.broker.popping.ordered_batch import OrderedBatch


class _Event(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """An event; its fields are written in the order in which they stand here."""


class Named(_Event, frozen=True, tag=0):
    """A queue gets its number."""

    number: int
    group: str
    topic: str
    queue_id: int


class Taken(_Event, frozen=True, tag=1):
    """Messages were popped, and the group reads on at `next_offset`.

    Attributes:
        steps: from each offset to the next one; empty if all of them are neighbours.
    """

    number: int
    pop_ms: int
    invisible_ms: int
    next_offset: int
    first: int
    count: int
    steps: Sequence[int] = ()

    @property
    def offsets(self) -> Sequence[int]:
        """The offsets of the messages."""
        if not self.steps:
            return range(self.first, self.first + self.count)
        offsets = [self.first]
        for step in self.steps:
            offsets.append(offsets[-1] + step)
        return offsets


class Done(_Event, frozen=True, tag=2):
    """Messages need not be delivered to the group any more."""

    number: int
    offsets: Sequence[int]


class Renewed(_Event, frozen=True, tag=3):
    """A message's invisible time was set anew; `entries` of `State` has the same for many."""

    number: int
    offset: int
    due_ms: int
    pop_ms: int
    is_suspended: bool


class Copied(_Event, frozen=True, tag=4):
    """A message was copied to the group's retry topic.

    It counts as done if the copy is still there at the next start.
    """

    number: int
    offset: int
    copy_topic: str
    copy_queue_id: int
    copy_offset: int


class State(_Event, frozen=True, tag=5):
    """All that is known of a queue, or the next part of it: offset, due, popped, suspended."""

    number: int
    next_offset: int
    entries: Sequence[tuple[int, int, int, bool]]
    is_first: bool = True


class Moved(_Event, frozen=True, tag=6):
    """The group reads on elsewhere, and nothing is in flight."""

    number: int
    next_offset: int


class Skipped(_Event, frozen=True, tag=7):
    """The group reads on behind messages that it does not want."""

    number: int
    next_offset: int


class Ordered(_Event, frozen=True, tag=8):
    """The state of a queue that is popped in order; None if it has none."""

    number: int
    batch: OrderedBatch | None


class Removed(_Event, frozen=True, tag=9):
    """The queue was forgotten with its topic or group."""

    number: int


Event = Named | Taken | Done | Renewed | Copied | State | Moved | Skipped | Ordered | Removed

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[Event])


def taken(
    number: int, pop_ms: int, invisible_ms: int, next_offset: int, offsets: Sequence[int]
) -> Taken:
    """Makes a `Taken` of offsets, one at least, in order."""
    first, count = offsets[0], len(offsets)
    steps: Sequence[int] = ()
    if offsets[-1] - first != count - 1:
        steps = [b - a for a, b in pairwise(offsets)]
    return Taken(number, pop_ms, invisible_ms, next_offset, first, count, steps)


def encode_events(events: Iterable[Event]) -> bytes:
    """Writes events as the body of a record."""
    return _encoder.encode(list(events))


def decode_events(body: bytes) -> list[Event]:
    """Reads the events of a record.

    Raises:
        msgspec.DecodeError: it has none.
    """
    return _decoder.decode(body)
