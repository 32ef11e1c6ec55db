"""The command `pocketmq broker elect`: have a member lead a broker set that has lost its leader."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from pocketmq.cli.options import NAMESRV_DEFAULT, NamesrvOption
from pocketmq.cli.output import Format, FormatOption, note, print_json, print_rows
from pocketmq.protocol.errors import OperatingError, PocketMQError, UsageError
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.process import run

if TYPE_CHECKING:
    from pocketmq.client import Admin
    from pocketmq.protocol.bodies.replication import MemberReport

LOOK_PERIOD_S, LOOKS_MAX = 0.1, 200
"""How often a member that was elected is asked whether it leads."""

PROMISES_MAX = 5
"""How often this command waits for a promise that its leader may have renewed meanwhile."""

ROWS_MAX = 50
"""Logs that a table shows of what is lost; JSON has all of them."""

MEMBER_COLUMNS = ("member", "address", "role", "epoch", "inSync", "logs", "messages", "lacks",
                  "lacksBytes", "told")  # fmt: skip
LOSS_COLUMNS = ("topic", "queue", "member", "messages", "bytes")


class Look(msgspec.Struct):
    """The members of a broker set, as far as they answer.

    Attributes:
        broker: the set's name.
        reports: of those that answer.
        silent: why the others do not, by address.
    """

    broker: str
    reports: list[MemberReport]
    silent: dict[str, str]

    def chosen(self, member_id: int) -> MemberReport:
        """The report of the member that is to lead.

        Raises:
            OperatingError: it does not answer, or cannot lead.
            UsageError: another one leads.
        """
        leader = next((r for r in self.reports if r.role == "leader"), None)
        found = [r for r in self.reports if r.member_id == member_id]
        if len(found) != 1:
            known = ", ".join(f"{r.member_id} at {r.address}" for r in self.reports) or "none"
            silent = "".join(f"; {at}: {why}" for at, why in self.silent.items())
            raise OperatingError(
                f"{len(found)} members with the id {member_id} of {self.broker} answer; answering: "
                f"{known}{silent}: start it, or name it by --member HOST:PORT"
            )
        if found[0].version < 0:
            raise OperatingError(f"nobody can be elected: {found[0].told}")
        if leader is not None and leader.member_id != member_id:
            raise UsageError(
                f"member {leader.member_id} at {leader.address} leads {self.broker} in epoch "
                f"{leader.epoch}: use `pocketmq broker switch`, which loses nothing"
            )
        return found[0]


def elect(
    to: Annotated[int, typer.Option("--to", help="The brokerId of the member that is to lead.")],
    broker: Annotated[
        str | None,
        typer.Option(
            "-b", "--broker", help="The set's brokerName; may be left out if it is alone."
        ),
    ] = None,
    member: Annotated[
        list[str] | None,
        typer.Option("--member", help="HOST:PORT of a member that no name server knows."),
    ] = None,
    unclean: Annotated[
        bool,
        typer.Option("--unclean", help="Also a member that lacks messages: they are lost."),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before.")] = False,
    reason: Annotated[str, typer.Option("--reason", help="Kept as the cause.")] = "",
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
    output: FormatOption = Format.TABLE,
) -> None:
    """Have a member lead a broker set that has lost its leader.

    Shows what each member has, and what only others than the chosen one have: that is lost. Without
    --unclean only a member that is in sync can lead, which loses nothing. The exit code is 0 if the
    member leads now, or did already; 1 if it does not (nothing was changed, unless the text says
    so); 2 for a command that can never work.
    """
    from pocketmq.client import Admin
    from pocketmq.console.api.brokers.member_reports import losses_of, member_row, state_of

    async def look() -> Look:
        async with Admin(namesrv) as admin:
            return await look_at(admin, broker, member or [])

    looked = run(look())
    chosen = looked.chosen(to)
    if chosen.role == "leader" and chosen.version:
        note(f"member {to} leads {looked.broker} already, in epoch {chosen.epoch}")
        return
    losses = losses_of(chosen, looked.reports)
    members = [member_row(report, looked.reports) for report in looked.reports]
    lost = [
        {"topic": x.topic, "queue": x.queue_id, "member": x.member_id, "messages": x.messages,
         "bytes": x.size}
        for x in losses
    ]  # fmt: skip
    if output is Format.TABLE:
        print_rows(members, MEMBER_COLUMNS, output)
        if lost:
            print_rows(lost[:ROWS_MAX], LOSS_COLUMNS, output)
    state = state_of([chosen])
    for line in warnings(chosen, looked, len(losses), sum(x.size for x in losses)):
        note(line)
    if not yes:
        typer.confirm(f"Have member {to} lead {looked.broker}?", abort=True, err=True)

    async def main() -> int:
        async with Admin(namesrv) as admin:
            return await carried_out(admin, chosen, looked, unclean=unclean, reason=reason)

    epoch = run(main())
    if output is Format.JSON:
        print_json(
            {"member": to, "epoch": epoch, "members": members, "lost": lost,
             "silent": looked.silent, "wasKnown": state is not None}
        )  # fmt: skip
    note(f"member {to} leads {looked.broker} in epoch {epoch}")


def warnings(chosen: MemberReport, looked: Look, logs: int, size: int) -> list[str]:
    """What somebody has to know before a member is elected."""
    from pocketmq.console.api.brokers.member_reports import state_of

    state = state_of([chosen])
    lines = [f"{address} does not answer: {why}" for address, why in looked.silent.items()]
    if chosen.gap:
        lines.append(f"member {chosen.member_id}: {chosen.gap}")
    if state is None:
        lines.append(
            "the arbiter knows no such set: its data was lost, or it is another arbiter. Make sure "
            "that the members that do not answer are stopped, else they may lead, too"
        )
        if chosen.role == "leader":
            lines.append(f"member {chosen.member_id} still leads: nothing is lost")
            return lines
    elif chosen.member_id in state.in_sync and not chosen.gap:
        lines.append(f"member {chosen.member_id} is in sync: nothing that was acknowledged is lost")
        return lines
    elif chosen.member_id not in state.in_sync:
        lines.append(
            f"member {chosen.member_id} is not in sync, {list(state.in_sync)} are: what was "
            f"acknowledged since it fell behind is lost, as far as only they have it. Make sure "
            f"that they are stopped"
        )
    if logs:
        lines.append(f"of what answers, {size} bytes in {logs} logs are lost, as listed")
    else:
        lines.append(f"no member that answers has anything that {chosen.member_id} lacks")
    return lines


async def look_at(admin: Admin, broker: str | None, members: list[str]) -> Look:
    """Asks all members of a broker set that can be found.

    Args:
        admin: asks.
        broker: the set's name; None for the only one.
        members: further addresses.

    Raises:
        UsageError: several sets are meant, or none.
    """
    addresses = dict.fromkeys(members)
    try:
        rows = await admin.brokers()
    except PocketMQError:
        if not members:
            raise
        rows = []
    names = {row.broker_name for row in rows}
    if broker is None and not members:
        if len(names) != 1:
            known = ", ".join(sorted(names)) or "none is registered"
            raise UsageError(f"say which broker set is meant: {known}; or name members by --member")
        (broker,) = names
    addresses.update(dict.fromkeys(r.address for r in rows if r.broker_name == broker))
    reports: dict[str, MemberReport] = {}
    silent: dict[str, str] = {}
    asked: set[str] = set()
    while left := [address for address in addresses if address not in asked]:
        for address in left:
            asked.add(address)
            try:
                reports[address] = await admin.describe_member(address)
            except PocketMQError as e:
                silent[address] = str(e)
        addresses.update(dict.fromkeys(_unheard(reports.values())))
    found = {report.broker_name for report in reports.values()}
    if len(found) > 1:
        raise UsageError(f"members of several broker sets are named: {', '.join(sorted(found))}")
    unique = {report.directory_id: report for report in reports.values()}
    by_id = sorted(unique.values(), key=lambda report: report.member_id)
    return Look(broker or next(iter(found), "the broker set"), by_id, silent)


def _unheard(reports: Collection[MemberReport]) -> Iterator[str]:
    """Where members know others that were not heard, perhaps at an address that clients use."""
    from pocketmq.console.api.brokers.member_reports import state_of

    heard = {report.directory_id for report in reports}
    for report in reports:
        state = state_of([report])
        members = [] if state is None else state.members.values()
        yield from (entry.address for entry in members if entry.directory_id not in heard)


async def carried_out(
    admin: Admin, chosen: MemberReport, looked: Look, *, unclean: bool, reason: str
) -> int:
    """Has a member elected, and waits until it leads; returns the epoch.

    Raises:
        OperatingError: it may not, or it does not lead in time.
    """
    epoch = max(report.epoch for report in looked.reports)
    promise_ms = chosen.promise_ms
    for _ in range(PROMISES_MAX):
        if not promise_ms or chosen.role == "leader":
            break
        note(f"the promise to the last leader runs out in {promise_ms / 1000:.1f} s")
        await SystemClock().sleep(promise_ms / 1000)
        promise_ms = (await admin.describe_member(chosen.address)).promise_ms
    elected = await admin.elect_member(
        chosen.address, chosen.version, epoch, unclean=unclean, reason=reason
    )
    for _ in range(LOOKS_MAX):
        if await _leads(admin, chosen.address):
            return elected
        await SystemClock().sleep(LOOK_PERIOD_S)
    raise OperatingError(
        f"member {chosen.member_id} was elected in epoch {elected}, but does not lead after "
        f"{LOOKS_MAX * LOOK_PERIOD_S:.0f} s: look at its log"
    )


async def _leads(admin: Admin, address: str) -> bool:
    try:
        report: Any = await admin.describe_member(address)
    except PocketMQError:  # its port is closed for a moment when it takes the lead
        return False
    return bool(report.role == "leader")
