"""Puts together what a broker, or the members of a broker set, tell."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import cast

from pocketmq.client import Admin
from pocketmq.client.admin.results import BrokerRow
from pocketmq.console.api.brokers.bodies import BrokerView, Member, Role
from pocketmq.console.api.brokers.set_views import SetView, set_view
from pocketmq.console.api.brokers.standings import Standings, standings
from pocketmq.protocol.bodies.replication import MemberReport
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import NoPermissionError, PocketMQError, ResponseError


async def broker_view(admin: Admin, name: str, rows: Sequence[BrokerRow]) -> BrokerView:
    """Asks all members of a name; those that do not answer hide no other.

    Args:
        admin: asks.
        name: of the brokers.
        rows: those that are registered, sorted by id; at least one.

    Raises:
        NoPermissionError: the caller may not see brokers.
    """
    of_set = await standings(admin, name, rows)
    view = BrokerView(
        cluster=rows[0].cluster, name=name, is_set=False, members=[_lone(row) for row in rows]
    )
    if of_set.is_set:
        seen = await _set_view(admin, name, rows, of_set)
        _fill(view, seen, of_set, rows)
    await asyncio.gather(*(_ask(admin, member) for member in view.members))
    return view


async def _set_view(
    admin: Admin, name: str, rows: Sequence[BrokerRow], of_set: Standings
) -> SetView:
    """Has each member describe itself."""
    registered = [of_set.member_of(row) for row in rows]
    further = [one.broker_address for one in of_set.members if one not in registered]
    addresses = list(dict.fromkeys([*(row.address for row in rows), *further]))
    told = await asyncio.gather(*(_report(admin, address) for address in addresses))
    reports: dict[str, MemberReport] = {}
    silent: dict[str, str] = {}
    for address, answer in zip(addresses, told, strict=True):
        if isinstance(answer, str):
            silent[address] = answer
        else:
            reports[answer.directory_id] = answer
    return set_view(name, _by_id(reports.values()), silent, of_set)


def _by_id(reports: Iterable[MemberReport]) -> list[MemberReport]:
    return sorted(reports, key=lambda report: report.member_id)


async def _report(admin: Admin, address: str) -> MemberReport | str:
    try:
        return await admin.describe_member(address)
    except NoPermissionError:
        raise
    except PocketMQError as e:
        return str(e)


def _lone(row: BrokerRow) -> Member:
    role: Role = "slave" if row.broker_id else "master"
    return Member(id=row.broker_id, address=row.address, role=role)


def _fill(view: BrokerView, seen: SetView, of_set: Standings, rows: Sequence[BrokerRow]) -> None:
    """Puts what a set tells into a view; nothing if no member tells."""
    if seen.arbiter is None and of_set.replicas is None:
        view.is_set = None
        return
    reached = {
        member.broker_id: row.address
        for row in rows
        if (member := of_set.member_of(row)) is not None
    }
    view.is_set = True
    view.leader, view.epoch, view.in_sync = seen.leader, seen.epoch, seen.in_sync
    view.changed_ms, view.reason, view.arbiter = seen.changed_ms, seen.reason, seen.arbiter
    view.members = [
        Member(
            id=row["member"],
            address=reached.get(row["member"], row["address"]),
            role=cast("Role", row["role"]),
            in_sync=row["inSync"],
            lag=row["lag"],
            told=row["told"],
        )
        for row in seen.members
    ]


async def _ask(admin: Admin, member: Member) -> None:
    """Asks a member for figures."""
    if member.role == "absent":
        member.problem = member.told
        return
    try:
        figures = await admin.broker_runtime(member.address)
    except NoPermissionError:
        raise
    except ResponseError as e:
        if e.code != ResponseCode.SERVICE_NOT_AVAILABLE:  # followers have none
            member.problem = str(e)
        return
    except PocketMQError as e:
        member.problem = str(e)
        return
    started = figures.get("bootTimestamp", "")
    member.figures = figures
    member.version = figures.get("brokerVersionDesc")
    member.started_ms = int(started) if started.isdigit() else None
