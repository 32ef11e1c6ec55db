from __future__ import annotations

import random

from pocketmq.broker.transactions.half_states import (
    COMMITTED,
    ENDING,
    GIVEN_UP,
    MOVED,
    OPEN,
    ROLLED_BACK,
    HalfMessageStates,
    OpenRange,
)


def test_what_is_over_at_the_front_is_forgotten() -> None:
    states = HalfMessageStates(5, 9)
    states.set(6, COMMITTED)
    assert states.advance() == 5
    states.set(5, ROLLED_BACK)
    assert states.advance() == 7
    assert [states.state(offset) for offset in (4, 5, 6, 7, 9)] == [None, None, None, OPEN, None]
    states.set(7, ENDING)
    states.set(8, MOVED)
    assert states.advance() == 7, "what is under way is not over"
    states.set(7, COMMITTED)
    assert (states.advance(), states.end) == (9, 9)
    states.set(6, OPEN)
    assert states.advance() == 9, "what is over stays so"


def test_it_grows_with_the_queue_and_never_shrinks() -> None:
    states = HalfMessageStates(3, 3)
    states.grow(5)
    states.set(4, GIVEN_UP)
    states.grow(4)
    assert (states.end, states.state(4), states.open_count()) == (5, GIVEN_UP, 1)


def test_runs_of_open_ones() -> None:
    states = HalfMessageStates(10, 20)
    for offset in (10, 13, 14, 19):
        states.set(offset, COMMITTED)
    assert states.next_open(0, 20, 64) == OpenRange(11, 13)
    assert states.next_open(12, 20, 64) == OpenRange(12, 13)
    assert states.next_open(13, 20, 3) == OpenRange(15, 18), "as many as asked for"
    assert states.next_open(15, 17, 64) == OpenRange(15, 17), "up to the end asked for"
    assert states.next_open(19, 20, 64) is None
    assert states.next_open(40, 50, 64) is None


def test_other_messages_may_stand_where_lost_ones_did() -> None:
    states = HalfMessageStates(10, 14)
    for offset in range(10, 14):
        states.set(offset, COMMITTED)
    states.reopen_from(12)
    assert [states.state(offset) for offset in range(10, 14)] == [COMMITTED, COMMITTED, OPEN, OPEN]
    states.reopen_from(0)
    assert states.open_count() == 4
    states.reopen_from(99)
    assert states.end == 14


def test_all_runs_together_are_what_is_open(chance: random.Random) -> None:
    states = HalfMessageStates(7, 500)
    over = {offset for offset in range(7, 500) if chance.random() < 0.6}
    for offset in over:
        states.set(offset, chance.choice((ENDING, COMMITTED, ROLLED_BACK, MOVED)))
    found: list[int] = []
    offset = 0
    while (run := states.next_open(offset, 500, chance.randrange(1, 9))) is not None:
        found += range(run.start, run.end)
        offset = run.end
    assert found == [offset for offset in range(7, 500) if offset not in over]
