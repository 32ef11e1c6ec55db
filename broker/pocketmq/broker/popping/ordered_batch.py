"""The last batch of a queue that a group pops in order (`QueueLevelConsumerManager`)."""

from __future__ import annotations

import msgspec


class OrderedBatch(msgspec.Struct, kw_only=True):
    """Messages that one member got; the queue is blocked until they are handled or due again.

    Attributes:
        pop_ms: when they were popped, in milliseconds since the epoch.
        invisible_ms: for how long.
        attempt_id: of the pop; its repetition gets the same messages.
        offsets: of the messages, in order.
        due_ms: when a message is due, by its offset, if that was changed.
        counts: how often a message was delivered before, by its offset, if it was.
        acknowledged: offsets that are handled.
    """

    pop_ms: int
    invisible_ms: int
    attempt_id: str = ""
    offsets: list[int]
    due_ms: dict[int, int] = msgspec.field(default_factory=dict)
    counts: dict[int, int] = msgspec.field(default_factory=dict)
    acknowledged: set[int] = msgspec.field(default_factory=set)

    @property
    def committed(self) -> int:
        """The first offset that is not acknowledged, or the one behind the batch."""
        for offset in self.offsets:
            if offset not in self.acknowledged:
                return offset
        return self.offsets[-1] + 1

    @property
    def is_done(self) -> bool:
        """Whether all messages are acknowledged."""
        return len(self.acknowledged) == len(self.offsets)

    def free_ms(self) -> int:
        """When the queue is free though messages are not acknowledged; 0 if all of them are."""
        until = self.pop_ms + self.invisible_ms
        return max(
            (self.due_ms.get(o, until) for o in self.offsets if o not in self.acknowledged),
            default=0,
        )

    def blocks(self, now_ms: int, attempt_id: str) -> bool:
        """Whether others must wait; who repeats the pop that got the batch need not."""
        if attempt_id and attempt_id == self.attempt_id:
            return False
        return self.free_ms() > now_ms

    def next(
        self, pop_ms: int, invisible_ms: int, attempt_id: str, offsets: list[int]
    ) -> OrderedBatch:
        """The batch that follows; messages that come again count one delivery more.

        They do not if the pop is only repeated.
        """
        is_repeated = bool(attempt_id) and attempt_id == self.attempt_id
        here = set(self.offsets)
        counts = {
            offset: self.counts.get(offset, 0) + (not is_repeated)
            for offset in offsets
            if offset in here
        }
        return OrderedBatch(
            pop_ms=pop_ms,
            invisible_ms=invisible_ms,
            attempt_id=attempt_id,
            offsets=offsets,
            counts={offset: count for offset, count in counts.items() if count},
        )

    def acknowledge(self, offset: int, pop_ms: int) -> bool | None:
        """Marks a message as handled.

        Returns:
            Whether something changed; None if the batch has no such message.
        """
        if offset < self.committed or pop_ms != self.pop_ms:
            return False
        if offset not in self.offsets:
            return None
        if offset in self.acknowledged:
            return False
        self.acknowledged.add(offset)
        self.due_ms.pop(offset, None)
        return True

    def renew(self, offset: int, pop_ms: int, due_ms: int) -> bool:
        """Sets when a message is due again; False if it is not of this batch, or handled."""
        if pop_ms != self.pop_ms or offset not in self.offsets or offset in self.acknowledged:
            return False
        self.due_ms[offset] = due_ms
        return True
