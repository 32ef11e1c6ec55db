"""What the crash tests promise themselves of a broker, where that was once too much."""

from __future__ import annotations

from support.crash.book import Book, Commit, Crash, Mark

QUEUE = ("Plain", 2)


def test_an_offset_that_was_not_saved_before_a_kill_is_not_saved_by_the_next_process() -> None:
    """It was only in the memory of the process that was killed."""
    book = Book(is_sync=False, commits={QUEUE: [Commit(10, 11, 2)]})
    book.go_on({}, Crash(20, is_kill=True))
    book.marks.append(Mark(30, 40))  # the next process has saved all that it knows
    assert book.compare_offset(QUEUE, 0, 2, Crash(50, is_kill=True)) == []


def test_one_that_was_saved_stays_saved() -> None:
    book = Book(is_sync=False, commits={QUEUE: [Commit(10, 11, 2)]}, marks=[Mark(12, 15)])
    book.go_on({}, Crash(20, is_kill=True))
    (wrong,) = book.compare_offset(QUEUE, 0, 2, Crash(50, is_kill=True))
    assert wrong == "the group stands at 0 of ('Plain', 2), 2 was saved"
