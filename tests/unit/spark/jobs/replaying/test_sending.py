"""What of a replay that was cut off is committed by the next run, and when its writes begin."""

from __future__ import annotations

from typing import Any

from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.spark.jobs.replaying.sending import ReplaySending, SentMessage, uncounted
from pocketmq.spark.marked.intervals import Intervals
from pocketmq.spark.rows.marks import WriterIdentity
from pocketmq.testing.clock import VirtualClock

A, B = MessageQueue("T", "broker-a", 0), MessageQueue("T", "broker-b", 1)
FIRST, SECOND = "r-1-keyed@broker-a", "r-1-spread@broker-b"
NOTHING: dict[str, Intervals] = {}


def test_what_counts_is_left_and_of_the_rest_one_copy_is_taken() -> None:
    sent = [
        SentMessage("p1", FIRST, A, 10),
        SentMessage("p2", FIRST, A, 11),
        SentMessage("p2", FIRST, A, 20),
        SentMessage("p3", FIRST, A, 12),
        SentMessage("p3", FIRST, A, 21),
        SentMessage("p4", SECOND, B, 12),
        SentMessage("p5", None, B, 13),
        SentMessage("p5", SECOND, B, 14),
    ]
    committed = {A: {"r-1-keyed": Intervals([(10, 11), (20, 21)])}}
    found = uncounted(sent, lambda queue: committed.get(queue, NOTHING))
    [(offset, end)] = found[WriterIdentity.parse(FIRST)].pop(A)
    assert offset in (12, 21)
    assert end == offset + 1
    assert found == {WriterIdentity.parse(FIRST): {}, WriterIdentity.parse(SECOND): {B: [(12, 13)]}}


def test_a_commit_of_another_queue_or_writer_is_none() -> None:
    sent = [SentMessage("p", FIRST, A, 10)]
    of_another = {B: {"r-1-keyed": Intervals([(10, 11)])}, A: {"r-2-keyed": Intervals([(10, 11)])}}
    found = uncounted(sent, lambda queue: of_another.get(queue, NOTHING))
    assert found == {WriterIdentity.parse(FIRST): {A: [(10, 11)]}}
    assert uncounted([], lambda _: NOTHING) == {}


class LeapingClock(VirtualClock):
    """Whoever sleeps is at once where he wanted to be."""

    async def leap(self, seconds: float) -> None:
        self.block(seconds)

    sleep = leap


class TimedSending(ReplaySending):
    """Writes nothing, and notes when it was to."""

    def __init__(self, rate: int, clock: VirtualClock) -> None:
        nowhere: Any = None
        super().__init__(nowhere, {"namesrvAddr": "a:9876"}, "id", rate, clock)
        self._now, self.begun = clock.monotonic, list[tuple[int, bool, float]]()

    def _write(self, rows: Any, number: int, *, is_keyed: bool) -> None:
        self.begun.append((number, is_keyed, self._now()))


def test_a_rate_holds_over_all_writes_of_all_slices() -> None:
    rows: Any = None
    clock = LeapingClock()
    start = clock.monotonic()
    sending = TimedSending(10, clock)
    sending.send(rows, 1, {True: 30, False: 70})
    sending.send(rows, 2, {True: 50})
    clock.block(100)
    sending.send(rows, 3, {False: 1})
    begun = [(number, is_keyed, round(at - start, 6)) for number, is_keyed, at in sending.begun]
    # What was not sent in a pause is not made up for.
    assert begun == [(1, False, 0.0), (1, True, 7.0), (2, True, 10.0), (3, False, 110.0)]


def test_without_a_rate_nothing_waits() -> None:
    rows: Any = None
    clock = LeapingClock()
    sending = TimedSending(0, clock)
    sending.send(rows, 1, {True: 30, False: 70})
    assert [at for *_, at in sending.begun] == [clock.monotonic()] * 2
