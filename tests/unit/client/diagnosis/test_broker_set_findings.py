"""What the doctor says of broker sets, of what their members tell."""

from __future__ import annotations

from typing import Any

from pocketmq.client.diagnosis.broker_sets import BrokerSet, findings_of
from pocketmq.client.diagnosis.findings import Finding, Severity
from pocketmq.protocol.bodies.replication import MemberReport


def report(member_id: int, role: str = "follower", **other: Any) -> MemberReport:
    known: dict[str, Any] = {
        "cluster": "c", "broker_name": "a", "member_id": member_id, "address": f"m:{member_id}",
        "set_id": "s", "directory_id": "d", "epoch": 4, "role": role, "promise_ms": 0, "state": b"",
        "version": 9, "gap": "", "told": "", "logs": [],
    }  # fmt: skip
    return MemberReport(**known | other)


def found(
    *reports: MemberReport, in_sync: list[int] | None = None, needed: int = 1, **silent: str
) -> list[Finding]:
    return findings_of(
        BrokerSet(
            name="a",
            addresses={1: "m:1", 2: "m:2"},
            in_sync=in_sync,
            needed=needed,
            reports={report.member_id: report for report in reports},
            silent={"m:1": silent.get("first", ""), "m:2": silent.get("second", "")},
        )
    )


def test_a_whole_set_has_no_findings() -> None:
    assert found(report(1, "leader"), report(2), in_sync=[1, 2], needed=2) == []


def test_a_member_that_does_not_answer_is_named_with_the_reason() -> None:
    left, absent = found(report(1, "leader"), in_sync=[1], second="port closed")
    assert "only 1 is in sync" in left.seen
    assert (absent.subject, absent.severity) == ("member 2 of a at m:2", Severity.WARNING)
    assert absent.seen.endswith("it cannot take over: it does not answer: port closed")
    assert "cleanBrokerMetadata" in absent.remedy


def test_too_few_members_in_sync_are_an_error() -> None:
    refused, _ = found(report(1, "leader"), report(2), in_sync=[1], needed=2)
    assert refused.severity is Severity.ERROR
    assert "minInSyncReplicas is 2: sends are refused" in refused.seen


def test_a_follower_that_catches_up_needs_patience() -> None:
    _, behind = found(report(1, "leader"), report(2), in_sync=[1])
    assert "it follows, and is catching up" in behind.seen
    assert behind.remedy.startswith("wait")


def test_a_member_that_does_not_follow_says_why() -> None:
    (waits,) = found(report(1, "leader"), report(2, "waiting", told="formats"), in_sync=[1, 2])
    assert waits.seen == "it does not follow: formats"


def test_without_a_leader_the_members_in_sync_are_to_be_started() -> None:
    leaderless, absent = found(report(2, "waiting", told="silent"), in_sync=[1])[:2]
    assert leaderless.severity is Severity.ERROR
    assert "no member leads: nothing can be sent; member 2 says: silent" in leaderless.seen
    assert "start the members that are in sync (1)" in leaderless.remedy
    assert "broker elect --unclean" in leaderless.remedy
    assert absent.subject == "member 1 of a at m:1"


def test_an_arbiter_that_has_lost_the_set_is_told_it_again() -> None:
    (lost,) = found(report(1, "leader", version=0), report(2, version=0), in_sync=[1, 2])
    assert "the arbiter knows no such set, though member 1 leads it" in lost.seen
    assert "pocketmq broker elect -b a --to 1 --unclean" in lost.remedy


def test_a_gap_keeps_a_member_from_leading() -> None:
    (gap,) = found(report(1, "leader"), report(2, gap="damaged: T 0"), in_sync=[1, 2])
    assert gap.seen == "it must not lead: damaged: T 0"
    assert "pocketmq store repair" in gap.remedy
