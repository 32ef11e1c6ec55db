from __future__ import annotations

import random

from pocketmq.broker.transactions.ledger import (
    COMMITTED,
    ENDING,
    GIVEN_UP,
    MOVED,
    OPEN,
    ROLLED_BACK,
    Ledger,
    Run,
)


def test_what_is_over_at_the_front_is_forgotten() -> None:
    ledger = Ledger(5, 9)
    ledger.set(6, COMMITTED)
    assert ledger.advance() == 5
    ledger.set(5, ROLLED_BACK)
    assert ledger.advance() == 7
    assert [ledger.state(offset) for offset in (4, 5, 6, 7, 9)] == [None, None, None, OPEN, None]
    ledger.set(7, ENDING)
    ledger.set(8, MOVED)
    assert ledger.advance() == 7, "what is under way is not over"
    ledger.set(7, COMMITTED)
    assert (ledger.advance(), ledger.end) == (9, 9)
    ledger.set(6, OPEN)
    assert ledger.advance() == 9, "what is over stays so"


def test_it_grows_with_the_queue_and_never_shrinks() -> None:
    ledger = Ledger(3, 3)
    ledger.grow(5)
    ledger.set(4, GIVEN_UP)
    ledger.grow(4)
    assert (ledger.end, ledger.state(4), ledger.open_count()) == (5, GIVEN_UP, 1)


def test_runs_of_open_ones() -> None:
    ledger = Ledger(10, 20)
    for offset in (10, 13, 14, 19):
        ledger.set(offset, COMMITTED)
    assert ledger.next_open(0, 20, 64) == Run(11, 13)
    assert ledger.next_open(12, 20, 64) == Run(12, 13)
    assert ledger.next_open(13, 20, 3) == Run(15, 18), "as many as asked for"
    assert ledger.next_open(15, 17, 64) == Run(15, 17), "up to the end asked for"
    assert ledger.next_open(19, 20, 64) is None
    assert ledger.next_open(40, 50, 64) is None


def test_other_messages_may_stand_where_lost_ones_did() -> None:
    ledger = Ledger(10, 14)
    for offset in range(10, 14):
        ledger.set(offset, COMMITTED)
    ledger.reopen_from(12)
    assert [ledger.state(offset) for offset in range(10, 14)] == [COMMITTED, COMMITTED, OPEN, OPEN]
    ledger.reopen_from(0)
    assert ledger.open_count() == 4
    ledger.reopen_from(99)
    assert ledger.end == 14


def test_all_runs_together_are_what_is_open(chance: random.Random) -> None:
    ledger = Ledger(7, 500)
    over = {offset for offset in range(7, 500) if chance.random() < 0.6}
    for offset in over:
        ledger.set(offset, chance.choice((ENDING, COMMITTED, ROLLED_BACK, MOVED)))
    found: list[int] = []
    offset = 0
    while (run := ledger.next_open(offset, 500, chance.randrange(1, 9))) is not None:
        found += range(run.start, run.end)
        offset = run.end
    assert found == [offset for offset in range(7, 500) if offset not in over]
