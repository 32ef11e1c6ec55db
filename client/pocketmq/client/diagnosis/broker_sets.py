"""Finds broker sets that nobody leads, that have lost members, or whose arbiter is away."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter

import msgspec

from pocketmq.client.diagnosis.cluster_state import ASK_TIMEOUT_MS, BrokerState, ClusterState
from pocketmq.client.diagnosis.findings import Finding, Severity, unfinished
from pocketmq.protocol.bodies.controller import BrokerReplicasInfo, ReplicasInfo
from pocketmq.protocol.bodies.replication import MemberReport
from pocketmq.protocol.errors import OperatingError, PeerError, ResponseError
from pocketmq.protocol.requests.brokers import SyncStateRequest
from pocketmq.protocol.requests.extensions.replication import DescribeMemberRequest

SETS = "broker sets"

SEE = "docs/replication.md lists what members say, with what helps"


@dataclass
class BrokerSet:
    """A broker set as its members describe it.

    Attributes:
        name: its brokerName.
        addresses: of its members, by id, as far as a member tells them.
        in_sync: the ids of the members in sync; None if no member knows.
        needed: minInSyncReplicas.
        reports: of the members that answer, by id.
        silent: why other addresses do not answer.
    """

    name: str
    addresses: dict[int, str] = field(default_factory=dict)
    in_sync: list[int] | None = None
    needed: int = 1
    reports: dict[int, MemberReport] = field(default_factory=dict)
    silent: dict[str, str] = field(default_factory=dict)

    @property
    def has_leader(self) -> bool:
        """Whether a member that answers leads."""
        return any(report.role == "leader" for report in self.reports.values())


async def check_broker_sets(state: ClusterState) -> list[Finding]:
    """Finds broker sets that cannot write, or could not if one more member died."""
    findings: list[Finding] = []
    brokers = sorted(state.brokers, key=attrgetter("cluster", "name", "broker_id"))
    for (_, name), group in groupby(brokers, attrgetter("cluster", "name")):
        members = list(group)
        if not any(_is_member(broker) for broker in members):
            continue
        try:
            findings += findings_of(await _look_at(state, name, members))
        except (OperatingError, PeerError) as e:
            findings.append(unfinished(SETS, name, e))
    return findings


def _is_member(broker: BrokerState) -> bool:
    """Whether a broker is a member of a set of PocketMQ: Apache's sets have a controller."""
    return broker.is_pocketmq and broker.settings.get("enableControllerMode") == "true"


async def _look_at(state: ClusterState, name: str, members: Sequence[BrokerState]) -> BrokerSet:
    """Asks all members of a set that are registered, or that another member knows.

    Raises:
        OperatingError: every member that answers refuses to describe itself.
    """
    answering = [broker for broker in members if not broker.error]
    found = BrokerSet(name, silent={b.address: b.error for b in members if b.error})
    found.needed = int(answering[0].settings.get("minInSyncReplicas", "1"))
    replicas = await _replicas(state, name, answering)
    if replicas is not None:
        everyone = [*replicas.in_sync_replicas, *replicas.not_in_sync_replicas]
        found.addresses = {member.broker_id: member.broker_address for member in everyone}
        found.in_sync = [member.broker_id for member in replicas.in_sync_replicas]
        found.addresses |= _registered(replicas, found.addresses, members)
    asked = {broker.address for broker in answering} | {*found.addresses.values()}
    refused: OperatingError | None = None
    for address, answer in await _described(state, asked - found.silent.keys()):
        if isinstance(answer, MemberReport):
            found.reports[answer.member_id] = answer
            found.addresses.setdefault(answer.member_id, address)
        else:
            found.silent[address] = str(answer)
            refused = answer if isinstance(answer, ResponseError) else refused
    if refused is not None and not found.reports:
        raise refused
    return found


def _registered(
    replicas: ReplicasInfo, known: Mapping[int, str], members: Sequence[BrokerState]
) -> dict[int, str]:
    """Addresses at which the caller finds members; among themselves they may use others."""
    ids = {address: member_id for member_id, address in known.items()}
    by_id: dict[int, str] = {}
    for broker in members:  # the leader first, as 0
        member_id = ids.get(broker.address, broker.broker_id or replicas.master_broker_id)
        if member_id is not None:
            by_id[member_id] = broker.address
    return by_id


async def _replicas(
    state: ClusterState, name: str, members: Sequence[BrokerState]
) -> ReplicasInfo | None:
    """Asks the leader first, which also knows the set while the arbiter is away."""
    body = msgspec.json.encode([name])
    for broker in members:
        try:
            answer = await state.pool.ask(broker.address, SyncStateRequest(), ASK_TIMEOUT_MS, body)
            table = BrokerReplicasInfo.decode(answer.body).replicas_info_table
        except (OperatingError, PeerError):
            continue  # another member may know; why the arbiter does not answer the reports tell
        if name in table:
            return table[name]
    return None


async def _described(
    state: ClusterState, addresses: set[str]
) -> list[tuple[str, MemberReport | OperatingError | PeerError]]:
    async def describe(address: str) -> tuple[str, MemberReport | OperatingError | PeerError]:
        try:
            answer = await state.ask(address, DescribeMemberRequest())
            return address, MemberReport.decode(answer.body)
        except (OperatingError, PeerError) as e:
            return address, e

    return await asyncio.gather(*(describe(address) for address in sorted(addresses)))


def findings_of(found: BrokerSet) -> list[Finding]:
    """Returns what is wrong with a broker set. Pure."""
    findings = [*_without_leader(found), *_of_arbiter(found), *_too_few(found)]
    for member_id, address in sorted(found.addresses.items()):
        findings += _of_member(found, member_id, address)
    return findings


def _without_leader(found: BrokerSet) -> list[Finding]:
    if found.has_leader or not found.reports:
        return []
    told = [f"member {m} says: {report.told}" for m, report in _sorted(found) if report.told]
    if found.in_sync is None:
        remedy = "have the arbiter answer, without which no member is elected"
    else:
        remedy = (
            f"start the members that are in sync ({_ids(found.in_sync)}): one of them is elected; "
            f"if they are lost, `pocketmq broker elect --unclean` shows what each other one lacks, "
            f"and asks before one leads"
        )
    return [
        Finding(
            SETS,
            Severity.ERROR,
            found.name,
            "; ".join(["no member leads: nothing can be sent", *told]),
            f"{remedy}; {SEE}",
        )
    ]


def _of_arbiter(found: BrokerSet) -> list[Finding]:
    reports = [report for _, report in _sorted(found)]
    away = next((report for report in reports if report.version < 0), None)
    if away is not None:
        return [
            Finding(
                SETS,
                Severity.WARNING,
                found.name,
                f"the arbiter is away: {away.told}; until it is back no other member can be "
                f"elected",
                f"start the name server that has arbiterPath, or etcd; a leader that lives goes on "
                f"meanwhile; {SEE}",
            )
        ]
    leader = next((report for report in reports if report.role == "leader"), None)
    if leader is None or leader.version:
        return []
    return [
        Finding(
            SETS,
            Severity.WARNING,
            found.name,
            f"the arbiter knows no such set, though member {leader.member_id} leads it: nobody can "
            f"take over",
            f"if the arbiter's data was lost: pocketmq broker elect -b {found.name} "
            f"--to {leader.member_id} --unclean, which tells it the set again; if it is another "
            f"arbiter, correct controllerAddr",
        )
    ]


def _too_few(found: BrokerSet) -> list[Finding]:
    if found.in_sync is None or not found.has_leader:
        return []
    count, remedy = len(found.in_sync), "bring the other members back, as their findings say"
    if count < found.needed:
        severity = Severity.ERROR
        seen = (
            f"in sync is only {_ids(found.in_sync)}, and minInSyncReplicas is {found.needed}: "
            f"sends are refused"
        )
        remedy += "; with a lower minInSyncReplicas in all members fewer copies are enough"
    elif count == 1 < len(found.addresses):
        severity = Severity.WARNING
        seen = (
            f"of members {_ids(found.addresses)} only {_ids(found.in_sync)} is in sync: what is "
            f"sent now has one copy, and nobody could take over"
        )
    else:
        return []
    return [Finding(SETS, severity, found.name, seen, remedy)]


def _of_member(found: BrokerSet, member_id: int, address: str) -> list[Finding]:
    """Finds a member that does not take part, or must not lead."""
    report = found.reports.get(member_id)
    subject = f"member {member_id} of {found.name} at {address}"
    findings = []
    if trouble := _trouble(found, member_id, address):
        is_left = found.in_sync is not None and member_id not in found.in_sync
        seen = f"it is not in sync, so that it cannot take over: {trouble}" if is_left else trouble
        if report is None:
            remedy = (
                "start it, and see that the others reach it there; if it is gone for good, start "
                "another one with its brokerId and an empty directory, or forget it: mqadmin "
                "cleanBrokerMetadata"
            )
        elif report.role == "follower":
            remedy = "wait until it has caught up; if it does not, see its log and its leader's"
        else:
            remedy = f"mend what it says; {SEE}"
        findings.append(Finding(SETS, Severity.WARNING, subject, seen, remedy))
    if report is not None and report.gap:
        findings.append(
            Finding(
                SETS,
                Severity.WARNING,
                subject,
                f"it must not lead: {report.gap}",
                f"it mends itself when it follows a leader and has caught up; if queues are "
                f"damaged, stop it, then `pocketmq store repair DIR`; {SEE}",
            )
        )
    return findings


def _trouble(found: BrokerSet, member_id: int, address: str) -> str:
    """Tells why a member does not take part; empty if it does."""
    report = found.reports.get(member_id)
    if report is None:
        why = found.silent.get(address)
        return f"it does not answer{f': {why}' if why else ''}"
    if report.role == "leader":
        return ""
    if report.role != "follower":
        # While nobody leads, every member waits: that is another finding.
        why = report.told or "it is about to join its leader"
        return f"it does not follow: {why}" if found.has_leader else ""
    is_left = found.in_sync is not None and member_id not in found.in_sync
    return "it follows, and is catching up" if is_left else ""


def _sorted(found: BrokerSet) -> list[tuple[int, MemberReport]]:
    return sorted(found.reports.items())


def _ids(members: Sequence[int] | Mapping[int, str]) -> str:
    return ", ".join(str(member_id) for member_id in sorted(members))
