"""Finds broker sets that nobody leads, that have lost members, or whose arbiter is away."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import msgspec

from pocketmq.client.diagnosis.cluster_state import BrokerState, ClusterState
from pocketmq.client.diagnosis.findings import Finding, Severity, unfinished
from pocketmq.protocol.bodies.replication import MemberReport
from pocketmq.protocol.errors import OperatingError
from pocketmq.protocol.requests.replication import DescribeMemberRequest

SETS = "broker sets"

SEE = "docs/replication.md tells what members say, and what helps"


class _Known(msgspec.Struct, rename="camel"):
    """What the arbiter has of a set, as far as it is looked at here."""

    in_sync: list[int]
    members: dict[int, dict[str, str]]


async def check_broker_sets(state: ClusterState) -> list[Finding]:
    """Finds broker sets that cannot write, or could not if one more member died."""
    findings: list[Finding] = []
    for name, brokers in groupby(sorted(state.brokers, key=_name), _name):
        members = list(brokers)
        if any(b.settings.get("enableControllerMode") == "true" for b in members):
            findings += await _of_set(state, name, members)
    return findings


def _name(broker: BrokerState) -> str:
    return broker.name


async def _of_set(state: ClusterState, name: str, members: Sequence[BrokerState]) -> list[Finding]:
    findings: list[Finding] = []
    reports: list[MemberReport] = []
    for broker in members:
        if broker.error:
            continue
        try:
            answer = await state.ask(broker.address, DescribeMemberRequest())
        except OperatingError as e:
            findings.append(unfinished(SETS, str(broker), e))
        else:
            reports.append(MemberReport.decode(answer.body))
    if not reports:
        return findings
    told = next((r.told for r in reports if r.told), "")
    known = next((r.state for r in reports if r.state), b"")
    of_set = msgspec.json.decode(known, type=_Known) if known else _Known([], {})
    if not any(report.role == "leader" for report in reports):
        findings.append(_without_leader(name, of_set, told))
    if any(report.version < 0 for report in reports):
        findings.append(
            Finding(
                SETS,
                Severity.WARNING,
                name,
                f"the arbiter is away: {told}",
                "start the name server with the arbiter, or etcd: until then no other member can "
                "be elected",
            )
        )
    findings += _behind(name, of_set, reports)
    needed = int(members[0].settings.get("minInSyncReplicas", "1"))
    if of_set.in_sync and len(of_set.in_sync) < needed:
        seen = f"members {of_set.in_sync} are in sync, and minInSyncReplicas is {needed}: sends " \
               "are refused"  # fmt: skip
        findings.append(
            Finding(SETS, Severity.ERROR, name, seen, "bring the other members back, as above")
        )
    return findings


def _without_leader(name: str, known: _Known, told: str) -> Finding:
    return Finding(
        SETS,
        Severity.ERROR,
        name,
        f"no member leads{f': {told}' if told else ''}",
        f"start a member that is in sync ({known.in_sync or 'nobody knows which'}); if they are "
        f"lost, look what `pocketmq broker elect --unclean` would lose; {SEE}",
    )


def _behind(name: str, known: _Known, reports: Sequence[MemberReport]) -> list[Finding]:
    """Finds members that are not in sync, or must not lead."""
    by_id = {report.member_id: report for report in reports}
    findings = []
    for member_id, entry in known.members.items():
        report = by_id.get(member_id)
        subject = f"member {member_id} of {name} at {entry.get('address', '?')}"
        if member_id not in known.in_sync:
            why = "it does not answer" if report is None else report.told or "it catches up"
            findings.append(
                Finding(
                    SETS,
                    Severity.WARNING,
                    subject,
                    f"it is not in sync, so that it cannot take over: {why}",
                    f"start it, or look at its log; {SEE}. If it is gone for good: mqadmin "
                    f"cleanBrokerMetadata",
                )
            )
        if report is not None and report.gap:
            findings.append(
                Finding(SETS, Severity.WARNING, subject, f"it must not lead: {report.gap}", SEE)
            )
    return findings
