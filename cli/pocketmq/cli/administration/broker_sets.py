"""What commands show of broker sets: roles, epochs, lag, who is in sync, and the last switch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pocketmq.cli.administration.elections import look_at
from pocketmq.cli.options import NAMESRV_DEFAULT, NamesrvOption
from pocketmq.cli.output import Format, FormatOption, date, note, print_json, print_rows
from pocketmq.protocol.errors import OperatingError, PocketMQError
from pocketmq.runtime.process import run

if TYPE_CHECKING:
    from pocketmq.client import Admin, BrokerRow

MEMBER_COLUMNS = ("member", "address", "role", "epoch", "inSync", "lag", "told")


Columns = dict[tuple[str, int], dict[str, Any]]
"""Of members, by brokerName and brokerId; a leader's are also those of the brokerId 0."""


async def set_columns(admin: Admin, rows: Sequence[BrokerRow]) -> Columns:
    """What a listing of brokers says of those that are members of broker sets.

    The members' addresses at the arbiter are no key: name servers may tell others (`advertise`).

    Args:
        admin: asks.
        rows: all brokers. One that is of no set, or does not answer, gets nothing.
    """
    found: Columns = {}
    for row in rows:
        if row.broker_id:
            continue
        try:
            sets = await admin.sync_state_sets(row.address, row.broker_name)
            status = await admin.ha_status(row.address)
        except PocketMQError:  # it is of no set, or whoever asks may not know
            continue
        lags = {follower.addr: follower.diff for follower in status.ha_connection_info}
        for name, info in sets.items():
            for replica in (*info.in_sync_replicas, *info.not_in_sync_replicas):
                leads = replica.broker_address == info.master_address
                columns = found[name, replica.broker_id] = {
                    "role": "leader" if leads else "follower",
                    "epoch": info.master_epoch,
                    "inSync": replica in info.in_sync_replicas,
                    "lag": 0 if leads else lags.get(replica.broker_address),
                }
                if leads:
                    found[name, 0] = columns
    return found


def show(
    broker: Annotated[
        str | None,
        typer.Option("-b", "--broker", help="The broker's name; may be left out if it is alone."),
    ] = None,
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
    output: FormatOption = Format.TABLE,
) -> None:
    """Show a broker set: who leads since when and why, who is in sync, who lacks how much."""
    from pocketmq.cli.administration.member_reports import member_row, state_of
    from pocketmq.client import Admin

    async def main() -> tuple[Any, Columns]:
        async with Admin(namesrv) as admin:
            looked = await look_at(admin, broker, [])
            rows = [r for r in await admin.brokers() if r.broker_name == looked.broker]
            return looked, await set_columns(admin, rows)

    looked, columns = run(main())
    if not looked.reports:
        silent = "".join(f"; {at}: {why}" for at, why in looked.silent.items())
        raise OperatingError(
            f"no member of a broker set {looked.broker} answers{silent}. Of a broker without a set "
            f"`pocketmq broker stats` tells more"
        )
    state = state_of(looked.reports)
    members = [
        {**member_row(report, looked.reports),
         "lag": columns.get((looked.broker, report.member_id), {}).get("lag")}
        for report in looked.reports
    ]  # fmt: skip
    known = {} if state is None else state.members
    answering = {report.member_id for report in looked.reports}
    members += [
        {"member": number, "address": entry.address, "role": "absent", "inSync":
         state is not None and number in state.in_sync, "told": looked.silent.get(entry.address)}
        for number, entry in known.items() if number not in answering
    ]  # fmt: skip
    if output is Format.JSON:
        summary = {
            "broker": looked.broker,
            "leader": state and state.leader_id,
            "epoch": state and state.epoch,
            "inSync": state and list(state.in_sync),
            "changedMs": state and state.changed_ms,
            "reason": state and state.reason,
        }
        rows = [{column: row.get(column) for column in MEMBER_COLUMNS} for row in members]
        print_json({**summary, "members": rows})
        return
    if state is None:
        note(f"{looked.broker}: the arbiter tells nothing of it")
    else:
        note(
            f"{looked.broker}: member {state.leader_id} leads in epoch {state.epoch} since "
            f"{date(state.changed_ms)}: {state.reason}; in sync: "
            f"{', '.join(str(number) for number in state.in_sync)}"
        )
    print_rows(members, MEMBER_COLUMNS, output)
