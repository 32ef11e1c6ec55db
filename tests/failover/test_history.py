"""The checks of a broker set's history find what is planted, and nothing in a sound history."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.failover.history import (
    History,
    OffsetCommit,
    OffsetRead,
    Read,
    Send,
    contents_of,
    violations,
)


def sound() -> History:
    """Two clients, two queues; one send without an answer that is stored, one that is not."""
    return History(
        sends=[
            Send("one", "a", 0, 1, 1, (0, 0), True),
            Send("one", "b", 2, 3, 2, (0, 1), True),
            Send("two", "c", 2, 4, 1, (1, 0), True),
            Send("two", "d", 5, 6, 3, None, False),
            Send("one", "e", 5, 7, 1, None, False),
            Send("two", "f", 8, 9, 1, (1, 2), False),
            Send("one", "g", 8, 9, 1, (0, 4), True),
        ],
        reads=[Read("tail", (0, 0), "a"), Read("tail", (0, 0), "a"), Read("push", (1, 1), "d")],
        commits=[OffsetCommit(0, 1, 0, 1), OffsetCommit(0, 2, 2, 4)],
        offset_reads=[
            OffsetRead(0, 1, 1.5, 1.7), OffsetRead(0, 2, 3, 5), OffsetRead(0, 1, 3, 3.5),
            OffsetRead(0, 2, 6, 7),
        ],
        consumed={"billing": {"a", "b", "c", "d", "g"}},
        final={
            (0, 0): "a", (0, 1): "b", (0, 2): "d", (0, 3): "b", (0, 4): "g",
            (1, 0): "c", (1, 1): "d", (1, 2): "d",
        },
        stored={"member 1": {"Orders 0": b"abdb"}, "member 2": {"Orders 0": b"abdb"}},
    )  # fmt: skip


def test_a_sound_history_has_no_violations() -> None:
    assert violations(sound()) == []


def lose_a_message(history: History) -> None:
    del history.final[0, 4]


def lose_a_message_and_give_its_place_away(history: History) -> None:
    history.final[0, 4] = "e"


def move_a_message(history: History) -> None:
    history.final[0, 4], history.final[0, 5] = "e", "g"


def give_a_place_to_two(history: History) -> None:
    history.sends.append(Send("two", "h", 9, 10, 1, (0, 4), True))


def show_what_is_taken_back(history: History) -> None:
    history.reads.append(Read("tail", (0, 4), "e"))


def show_what_is_nowhere(history: History) -> None:
    history.reads.append(Read("tail", (1, 9), "e"))


def leave_a_gap(history: History) -> None:
    history.final[1, 4] = "e"


def store_what_nobody_sent(history: History) -> None:
    history.final[1, 3] = "z"


def store_twice_what_was_sent_once(history: History) -> None:
    history.final[1, 3] = "c"


def put_a_later_message_before(history: History) -> None:
    """Of another client, whose send began when the other one's had ended."""
    history.sends[0] = Send("three", "a", 3.5, 4.5, 1, (0, 0), True)


def put_a_clients_messages_in_the_wrong_order(history: History) -> None:
    history.sends[0] = Send("one", "a", 3.5, 4, 1, (0, 0), True)
    history.sends[1] = Send("one", "b", 2, 3, 2, (0, 1), True)


def never_deliver(history: History) -> None:
    history.consumed["billing"].remove("c")


def forget_a_commit(history: History) -> None:
    history.offset_reads.append(OffsetRead(0, 1, 4.5, 8))


def forget_what_was_read(history: History) -> None:
    history.commits.pop()
    history.offset_reads.append(OffsetRead(0, 1, 5.5, 5.6))


def let_a_member_differ(history: History) -> None:
    history.stored["member 2"] = {"Orders 0": b"abdc"}


def let_a_member_lack_a_log(history: History) -> None:
    history.stored["member 3"] = {}


@pytest.mark.parametrize(
    ("plant", "found"),
    [
        (lose_a_message, "g was acknowledged at (0, 4) and is nowhere"),
        (lose_a_message_and_give_its_place_away, "acknowledged at (0, 4), where e is"),
        (move_a_message, "acknowledged at (0, 4), where e is"),
        (give_a_place_to_two, "(0, 4) was given to g and to h"),
        (show_what_is_taken_back, "tail has read e at (0, 4), where g is at last"),
        (show_what_is_nowhere, "tail has read e at (1, 9), where None is at last"),
        (leave_a_gap, "queue 1 has 4 messages, up to offset 4"),
        (store_what_nobody_sent, "nobody has sent z, which is at (1, 3)"),
        (store_twice_what_was_sent_once, "c was sent 1 times and is there 2 times"),
        (put_a_later_message_before, "b was acknowledged at (0, 1) before a was sent"),
        (put_a_clients_messages_in_the_wrong_order, "b was acknowledged at (0, 1) before a"),
        (never_deliver, "billing never got c, acknowledged at (1, 0)"),
        (forget_a_commit, "the committed offset of queue 0 was 2, then 1"),
        (forget_what_was_read, "the committed offset of queue 0 was 2, then 1"),
        (let_a_member_differ, "Orders 0 has 4 bytes in member 1 and 4 in member 2, and differs"),
        (let_a_member_lack_a_log, "Orders 0 has 4 bytes in member 2 and 0 in member 3"),
    ],
)
def test_a_planted_violation_is_found(plant: Callable[[History], None], found: str) -> None:
    history = sound()
    plant(history)
    assert any(found in sentence for sentence in violations(history)), violations(history)


def test_offsets_may_go_back_when_all_who_had_them_were_killed() -> None:
    history = sound()
    forget_a_commit(history)
    history.forgotten = [4.2]
    assert violations(history) == []
    history.commits.append(OffsetCommit(0, 2, 4.1, 4.3))  # after that
    assert violations(history) == ["the committed offset of queue 0 was 2, then 1"]


def test_many_violations_of_a_kind_are_counted() -> None:
    history = sound()
    history.reads += [Read("tail", (9, n), "e") for n in range(12)]
    assert violations(history)[-1] == "… and 7 more of these (taken_back)"


def test_a_place_that_comes_twice_is_no_log() -> None:
    with pytest.raises(AssertionError, match="is there twice"):
        contents_of([((0, 0), "a"), ((0, 0), "b")])
