"""What an election loses, log by log."""

from __future__ import annotations

from pocketmq.console.api.brokers.member_reports import Loss, losses_of
from pocketmq.protocol.bodies.replication import LogEnd, MemberReport


def report(member_id: int, *logs: LogEnd, set_id: str = "s") -> MemberReport:
    return MemberReport(
        cluster="c", broker_name="a", member_id=member_id, address=f"m:{member_id}",
        set_id=set_id, directory_id=f"d{member_id}", epoch=1, role="waiting", promise_ms=0,
        state=b"", version=0, gap="", told="", logs=list(logs),
    )  # fmt: skip


def log(position: int, offset: int, *history: tuple[int, int], number: int = 1) -> LogEnd:
    return LogEnd(number, "T", number, position, offset, list(history) or [(1, 0)])


def test_the_messages_behind_its_end_are_lost() -> None:
    chosen, other = report(1, log(100, 2)), report(2, log(250, 5))
    assert losses_of(chosen, [chosen, other]) == [Loss("T", 1, 2, 3, 150)]
    assert losses_of(other, [chosen, other]) == []


def test_what_is_behind_the_common_part_is_lost() -> None:
    chosen = report(1, log(300, 6, (1, 0), (3, 100)))
    other = report(2, log(250, 5, (1, 0), (2, 100)))
    assert losses_of(chosen, [other]) == [Loss("T", 1, 2, None, 150)]
    assert losses_of(other, [chosen]) == [Loss("T", 1, 1, None, 200)]


def test_the_most_that_any_other_has_counts() -> None:
    chosen = report(1, log(100, 2))
    others = [report(2, log(150, 3)), report(3, log(200, 4))]
    assert losses_of(chosen, others) == [Loss("T", 1, 3, 2, 100)]


def test_logs_that_it_does_not_have_are_lost_as_a_whole() -> None:
    other = report(2, log(70, 1, number=4), log(0, 0, number=5))
    assert losses_of(report(1), [other]) == [Loss("T", 4, 2, 1, 70)]


def test_members_of_another_set_do_not_count() -> None:
    assert losses_of(report(1), [report(2, log(70, 1), set_id="t")]) == []
