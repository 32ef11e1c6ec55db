"""What is shown of a broker set, put together from what its members tell."""

from __future__ import annotations

from pocketmq.broker.replication.set_state import MemberEntry, SetState, encode_state
from pocketmq.console.api.brokers.set_views import set_view
from pocketmq.console.api.brokers.standings import Standings
from pocketmq.protocol.bodies.controller import ReplicaIdentity, ReplicasInfo
from pocketmq.protocol.bodies.replication import LogEnd, MemberReport

STATE = SetState(
    set_id="s", epoch=4, leader_id=1, in_sync=(1,), changed_ms=7, reason="it was restarted",
    members={1: MemberEntry("m:1", "d1"), 2: MemberEntry("m:2", "d2"), 3: MemberEntry("m:3", "d3")},
)  # fmt: skip


def report(
    member_id: int, role: str, size: int, *, told: str = "", gap: str = "", version: int = 9,
    set_id: str = "s",
) -> MemberReport:  # fmt: skip
    return MemberReport(
        cluster="c", broker_name="a", member_id=member_id, address=f"m:{member_id}",
        set_id=set_id, directory_id=f"d{member_id}", epoch=4, role=role, promise_ms=0,
        state=encode_state(STATE) if version > 0 else b"", version=version, gap=gap, told=told,
        logs=[LogEnd(1, "T", 0, size, size, [(1, 0)])],
    )  # fmt: skip


def identity(member_id: int) -> ReplicaIdentity:
    return ReplicaIdentity(broker_name="a", broker_id=member_id, broker_address=f"m:{member_id}")


def test_a_member_that_is_not_connected_lacks_what_the_leader_has_more() -> None:
    reports = [report(1, "leader", 100), report(2, "waiting", 60, told="refused", gap="a gap")]
    view = set_view("a", reports, {"m:3": "closed"}, Standings(lags={"m:1": 5}))
    assert (view.leader, view.epoch, view.in_sync, view.arbiter) == (1, 4, [1], "answers")
    assert (view.changed_ms, view.reason) == (7, "it was restarted")
    leader, second, third = view.members
    assert (leader["role"], leader["inSync"], leader["lag"]) == ("leader", True, 0)
    assert (second["role"], second["inSync"], second["lag"]) == ("waiting", False, 40)
    assert second["told"] == "refused; a gap"
    assert (third["role"], third["lag"], third["told"]) == ("absent", None, "closed")


def test_the_leader_counts_what_a_connected_member_lacks() -> None:
    reports = [report(1, "leader", 100), report(2, "follower", 60)]
    view = set_view("a", reports, {}, Standings(lags={"m:2": 3}))
    assert view.members[1]["lag"] == 3
    assert view.members[2]["told"] == "it does not answer"


def test_a_member_with_data_of_another_set_lacks_nobody_knows_what() -> None:
    reports = [report(1, "leader", 100), report(2, "waiting", 0, set_id="")]
    assert set_view("a", reports, {}, Standings()).members[1]["lag"] is None


def test_while_the_arbiter_is_away_the_leader_knows_its_set() -> None:
    replicas = ReplicasInfo(
        master_broker_id=1,
        master_address="m:1",
        master_epoch=4,
        sync_state_set_epoch=9,
        in_sync_replicas=[identity(1)],
        not_in_sync_replicas=[identity(2)],
    )
    view = set_view("a", [report(1, "leader", 9, version=-1)], {}, Standings(replicas))
    assert (view.leader, view.epoch, view.in_sync, view.arbiter) == (1, 4, [1], "away")
    assert (view.changed_ms, view.reason) == (None, None)
    assert [(m["member"], m["inSync"]) for m in view.members] == [(1, True), (2, False)]


def test_a_set_that_nobody_leads_and_the_arbiter_has_lost() -> None:
    view = set_view("a", [report(2, "waiting", 9, version=0)], {}, Standings())
    assert (view.leader, view.epoch, view.in_sync) == (None, None, None)
    assert view.arbiter == "knows no such set"
    assert (view.members[0]["inSync"], view.members[0]["lag"]) == (None, None)
