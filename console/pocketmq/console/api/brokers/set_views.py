"""What a broker set is, from what its members tell. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from pocketmq.broker.replication.set_state import SetState
from pocketmq.console.api.brokers.member_reports import losses_of, state_of
from pocketmq.console.api.brokers.standings import Standings
from pocketmq.protocol.bodies.replication import MemberReport

ABSENT = "absent"
"""The role of a member that does not answer."""


class SetView(msgspec.Struct, rename="camel", kw_only=True):
    """A broker set as its members and the arbiter tell it.

    Attributes:
        cluster, broker: its names; the cluster is None if no member answers.
        is_set: True; a broker of no set is shown in another way.
        leader: the id of the member that leads; None if none does.
        epoch: of the last leadership.
        in_sync: the ids of the members in sync.
        changed_ms: when the leader changed last; None while the arbiter is away.
        reason: why; None while the arbiter is away.
        arbiter: `answers`, `away`, or `knows no such set`; None if no member answers.
        members: a row for each.
    """

    cluster: str | None
    broker: str
    is_set: bool = True
    leader: int | None
    epoch: int | None
    in_sync: list[int] | None
    changed_ms: int | None
    reason: str | None
    arbiter: str | None
    members: list[dict[str, Any]]


def set_view(
    name: str, reports: Sequence[MemberReport], silent: Mapping[str, str], standings: Standings
) -> SetView:
    """Puts together what the members of a broker set tell.

    Args:
        name: the set's brokerName.
        reports: of the members that answer.
        silent: why the others do not, by address.
        standings: as the leader knows them, also while the arbiter is away.

    Raises:
        ContentError: the arbiter holds no state of a set.
    """
    state = state_of(reports)
    leader = max(
        (report for report in reports if report.role == "leader"),
        key=lambda report: report.epoch,
        default=None,
    )
    in_sync = standings.in_sync if state is None else sorted(state.in_sync)
    addresses = _addresses(state, reports, standings)
    by_id = {report.member_id: report for report in reports}
    return SetView(
        cluster=reports[0].cluster if reports else None,
        broker=name,
        leader=None if leader is None else leader.member_id,
        epoch=_epoch(state, leader, standings),
        in_sync=in_sync,
        changed_ms=None if state is None else state.changed_ms,
        reason=None if state is None else state.reason,
        arbiter=_arbiter(reports),
        members=[
            {
                "member": member_id,
                "address": address,
                **_row(by_id.get(member_id), address, leader, silent, standings),
                "inSync": None if in_sync is None else member_id in in_sync,
            }
            for member_id, address in sorted(addresses.items())
        ],
    )


def _addresses(
    state: SetState | None, reports: Sequence[MemberReport], standings: Standings
) -> dict[int, str]:
    known = {member.broker_id: member.broker_address for member in standings.members}
    if state is not None:
        known |= {member_id: entry.address for member_id, entry in state.members.items()}
    return known | {report.member_id: report.address for report in reports}


def _epoch(state: SetState | None, leader: MemberReport | None, standings: Standings) -> int | None:
    if state is not None:
        return state.epoch
    if leader is not None:
        return leader.epoch
    return None if standings.replicas is None else standings.replicas.master_epoch


def _arbiter(reports: Sequence[MemberReport]) -> str | None:
    if not reports:
        return None
    if any(report.version < 0 for report in reports):
        return "away"
    return "answers" if any(report.version for report in reports) else "knows no such set"


def _row(
    report: MemberReport | None,
    address: str,
    leader: MemberReport | None,
    silent: Mapping[str, str],
    standings: Standings,
) -> dict[str, Any]:
    if report is None:
        return {"role": ABSENT, "lag": None, "told": silent.get(address, "it does not answer")}
    return {
        "role": report.role,
        "lag": _lag(report, leader, standings),
        "told": "; ".join(text for text in (report.told, report.gap) if text),
    }


def _lag(report: MemberReport, leader: MemberReport | None, standings: Standings) -> int | None:
    """Bytes that a member lacks: as its leader counts them, else as their logs differ."""
    if leader is None:
        return None
    if report.member_id == leader.member_id:
        return 0
    if (lag := standings.lags.get(report.address)) is not None:
        return lag
    if report.set_id != leader.set_id:  # new, or of another set: their logs say nothing
        return None
    return sum(loss.size for loss in losses_of(report, [leader]))
