"""The process queue against a model that keeps plain lists."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from support.peers.messages import received

from pocketmq.client.queues.process_queue import ProcessQueue
from pocketmq.protocol.messages.message import MessageQueue, ReceivedMessage

QUEUE = MessageQueue("T", "a", 0)


class ProcessQueueMachine(RuleBasedStateMachine):
    """Whatever is pulled, taken, finished and put back: nothing unfinished is ever passed."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = ProcessQueue(QUEUE, 0)
        self.next_offset = 0
        self.waiting: list[int] = []
        self.at_work: list[list[ReceivedMessage]] = []
        self.sizes: dict[int, int] = {}

    @rule(gaps=st.lists(st.integers(0, 5), max_size=8), after=st.integers(0, 4))
    def put(self, gaps: list[int], after: int) -> None:
        messages = []
        for gap in gaps:  # gaps are messages that did not match
            self.next_offset += gap
            messages.append(received(self.next_offset, b"x" * (1 + gap)))
            self.next_offset += 1
        self.next_offset += after
        self.queue.put(messages, self.next_offset)
        for message in messages:
            self.waiting.append(message.queue_offset)
            self.sizes[message.queue_offset] = message.store_size

    @precondition(lambda self: self.waiting)
    @rule()
    def put_again(self) -> None:
        known = [received(max(self.waiting))]
        self.queue.put(known, self.next_offset)

    @precondition(lambda self: self.waiting)
    @rule(count=st.integers(1, 4))
    def take(self, count: int) -> None:
        batch = self.queue.take(count)
        assert [m.queue_offset for m in batch] == self.waiting[:count]
        del self.waiting[:count]
        self.at_work.append(batch)

    @precondition(lambda self: self.at_work)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        batch = self.at_work.pop(data.draw(st.integers(0, len(self.at_work) - 1)))
        self.queue.finish(batch)
        for message in batch:
            self.sizes.pop(message.queue_offset, None)

    @precondition(lambda self: self.at_work)
    @rule(data=st.data())
    def finish_part(self, data: st.DataObject) -> None:
        batch = data.draw(st.sampled_from(self.at_work))
        part = data.draw(st.lists(st.sampled_from(batch)))  # some of them finished before
        self.queue.finish_part(part)
        for message in part:
            self.sizes.pop(message.queue_offset, None)

    @precondition(lambda self: self.at_work)
    @rule(data=st.data())
    def put_back(self, data: st.DataObject) -> None:
        batch = self.at_work.pop(data.draw(st.integers(0, len(self.at_work) - 1)))
        left = [m for m in batch if self.queue.holds(m)]
        assert [m.queue_offset for m in left] == [
            m.queue_offset for m in batch if m.queue_offset in self.sizes
        ]
        self.queue.put_back(left)
        self.waiting[:0] = [m.queue_offset for m in left]

    @invariant()
    def agrees(self) -> None:
        queue = self.queue
        unfinished = sorted(self.sizes)
        assert queue.commit_offset == (unfinished[0] if unfinished else self.next_offset)
        assert queue.count == len(unfinished)
        assert queue.size == sum(self.sizes.values())
        assert queue.at_work == len(self.at_work)
        assert queue.can_hand_out == bool(self.waiting)
        if unfinished:
            assert queue.span >= unfinished[-1] - unfinished[0]


TestProcessQueue = ProcessQueueMachine.TestCase


def test_one_batch_at_a_time() -> None:
    queue = ProcessQueue(QUEUE, 0, concurrency=1)
    queue.put([received(0), received(1)], 2)
    could: list[bool] = [queue.can_hand_out]
    batch = queue.take(1)
    could.append(queue.can_hand_out)
    queue.finish(batch)
    could.append(queue.can_hand_out)
    assert could == [True, False, True]
    assert queue.commit_offset == 1


def test_a_dropped_queue_hands_nothing_out() -> None:
    queue = ProcessQueue(QUEUE, 0)
    queue.put([received(0)], 1)
    queue.dropped = True
    assert not queue.can_hand_out
    assert queue.commit_offset == 0


def test_messages_that_do_not_match_are_passed() -> None:
    queue = ProcessQueue(QUEUE, 5)
    queue.put([], 40)
    assert queue.commit_offset == 40
