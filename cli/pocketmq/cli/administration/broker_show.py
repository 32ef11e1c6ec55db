"""The command `pocketmq broker show`: a broker set and its members, or a broker of no set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from pocketmq.cli.administration.broker_sets import for_people
from pocketmq.cli.options import NAMESRV_DEFAULT, NamesrvOption
from pocketmq.cli.output import Format, FormatOption, date, note, print_json, print_rows
from pocketmq.protocol.bodies.brokers import RELEASE_FIGURE
from pocketmq.protocol.errors import OperatingError, PocketMQError, UsageError
from pocketmq.runtime.process import run

if TYPE_CHECKING:
    from pocketmq.client import Admin, BrokerRow
    from pocketmq.console.api.brokers.set_views import SetView

MEMBER_COLUMNS = ("member", "address", "role", "inSync", "lag", "told")
BROKER_COLUMNS = ("cluster", "broker", "brokerId", "address", "version", "uptime", "diskRatio",
                  "disk")  # fmt: skip


def show(
    broker: Annotated[
        str | None,
        typer.Option(
            "-b", "--broker", help="The broker, by name or HOST:PORT; may be left out if alone."
        ),
    ] = None,
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
    output: FormatOption = Format.TABLE,
) -> None:
    """Show a broker set: who leads since when and why, who is in sync, who lacks how much.

    Of a broker of no set it shows version, uptime and disk. With HOST:PORT of one member no name
    server has to answer.
    """
    from pocketmq.client import Admin

    async def main() -> SetView | list[dict[str, Any]]:
        async with Admin(namesrv) as admin:
            name, rows = await _meant(admin, broker)
            return await _looked_at(admin, name, rows)

    seen = run(main())
    if isinstance(seen, list):
        if output is Format.JSON:
            first = seen[0]
            names = {"cluster": first["cluster"], "broker": first["broker"], "isSet": False}
            print_json({**names, "members": seen})
        else:
            print_rows(seen, BROKER_COLUMNS, output)
    elif output is Format.JSON:
        print_json(msgspec.to_builtins(seen))
    else:
        for line in summary(seen):
            typer.echo(line)
        print_rows(for_people(seen.members), MEMBER_COLUMNS, output)


async def _meant(admin: Admin, broker: str | None) -> tuple[str, Sequence[BrokerRow]]:
    """The name of the broker that the options name, and all that are registered under it.

    Raises:
        OperatingError: nothing answers at the address.
        UsageError: several brokers are meant, or none.
    """
    from pocketmq.client import BrokerRow

    if broker is not None and ":" in broker:
        settings = await admin.broker_config(broker)
        name = settings.get("brokerName", broker)
        own = BrokerRow(
            settings.get("brokerClusterName", ""), name, int(settings.get("brokerId", 0)), broker
        )
        try:
            rows = [row for row in await admin.brokers() if row.broker_name == name]
        except PocketMQError as e:
            note(f"no name server tells of other members: {e}")
            rows = []
        is_registered = any(row.address == broker for row in rows)
        return name, rows if is_registered else [own, *rows]
    rows = await admin.brokers()
    names = sorted({row.broker_name for row in rows})
    known = ", ".join(names) or "none: no broker is registered"
    if broker is None and len(names) != 1:
        raise UsageError(f"say which broker is meant; known brokers: {known}")
    name = names[0] if broker is None else broker
    if name not in names:
        raise UsageError(f"there is no broker {name}; known brokers: {known}")
    return name, [row for row in rows if row.broker_name == name]


async def _looked_at(
    admin: Admin, name: str, rows: Sequence[BrokerRow]
) -> SetView | list[dict[str, Any]]:
    """A broker set, or rows of brokers of no set.

    Raises:
        OperatingError: none of them answers.
    """
    from pocketmq.cli.administration.elections import look_at
    from pocketmq.console.api.brokers.set_views import set_view
    from pocketmq.console.api.brokers.standings import standings

    of_set = await standings(admin, name, rows)
    if not of_set.is_set:
        return [await _lone(admin, row) for row in rows]
    registered = [of_set.member_of(row) for row in rows]
    further = [member.broker_address for member in of_set.members if member not in registered]
    looked = await look_at(admin, name, [*(row.address for row in rows), *further])
    if not looked.reports:
        silent = "; ".join(f"{at}: {why}" for at, why in looked.silent.items())
        raise OperatingError(
            f"no member of {name} answers: {silent}. Start them, or name one that runs by "
            f"-b HOST:PORT"
        )
    return set_view(name, looked.reports, looked.silent, of_set)


async def _lone(admin: Admin, row: BrokerRow) -> dict[str, Any]:
    figures = await admin.broker_runtime(row.address)
    ratio, runtime = figures.get("commitLogDiskRatio"), figures.get("runtime")
    return {
        "cluster": row.cluster,
        "broker": row.broker_name,
        "brokerId": row.broker_id,
        "address": row.address,
        "version": figures.get("brokerVersionDesc"),
        "release": figures.get(RELEASE_FIGURE),
        "uptime": None if runtime is None else runtime.strip("[] "),
        "diskRatio": None if ratio is None else float(ratio),
        "disk": figures.get("commitLogDirCapacity"),
    }


def summary(view: SetView) -> list[str]:
    """What there is to say of a set as a whole, a line each."""
    address = next((row["address"] for row in view.members if row["member"] == view.leader), "")
    leader = "no member leads" if view.leader is None else f"member {view.leader} at {address}"
    in_sync = "unknown" if view.in_sync is None else ", ".join(map(str, view.in_sync))
    switched = "unknown: the arbiter tells it"
    if view.changed_ms is not None:
        switched = f"{date(view.changed_ms)}: {view.reason}"
    epoch = "unknown" if view.epoch is None else str(view.epoch)
    return [
        f"broker set   {view.broker} of {view.cluster}",
        f"leader       {leader}",
        f"epoch        {epoch}",
        f"in sync      {in_sync}",
        f"last switch  {switched}",
        f"arbiter      {view.arbiter}",
        "",
    ]
