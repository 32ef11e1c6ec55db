"""The commands `pocketmq cluster list` and `pocketmq broker …`: brokers, statistics, settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from pocketmq.cli.administration.broker_sets import for_people, set_columns
from pocketmq.cli.administration.broker_show import show
from pocketmq.cli.administration.elections import elect
from pocketmq.cli.options import NAMESRV_DEFAULT, NamesrvOption, name_value_pairs
from pocketmq.cli.output import Format, FormatOption, note, print_rows
from pocketmq.protocol.bodies.brokers import RELEASE_FIGURE
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import OperatingError, ResponseError, UsageError
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.process import run

if TYPE_CHECKING:
    from pocketmq.client import Admin, BrokerRow

LOOK_PERIOD_S, LOOKS_MAX = 0.1, 200
"""How often name servers are asked for a new leader."""

cluster_app = typer.Typer(help="See clusters and their brokers.", no_args_is_help=True)
app = typer.Typer(help="Start a broker; look at one that runs, and set it up.")
config_app = typer.Typer(help="See and change a broker's settings.", no_args_is_help=True)
app.add_typer(config_app, name="config")

BrokerOption = Annotated[
    str | None,
    typer.Option(
        "-b", "--broker", help="The broker, by name or HOST:PORT; may be left out if it is alone."
    ),
]


async def broker_address(admin: Admin, broker: str | None) -> str:
    """Returns the address of the broker that the options name.

    Raises:
        UsageError: no broker, or several, have the name.
    """
    if broker is not None and ":" in broker:
        return broker
    masters = {row.broker_name: row.address for row in await admin.brokers() if not row.broker_id}
    if broker is None and len(masters) == 1:
        return next(iter(masters.values()))
    if broker not in masters:
        known = ", ".join(sorted(masters)) or "none: no broker is registered"
        asked = "say which broker is meant" if broker is None else f"there is no broker {broker}"
        raise UsageError(f"{asked}; known brokers: {known}")
    return masters[broker]


async def _figures(admin: Admin, row: BrokerRow, *, is_member: bool) -> dict[str, str] | None:
    """The figures of a broker; None for a member of a broker set that has none, or is down.

    Raises:
        OperatingError: a broker of no set does not answer.
    """
    try:
        return await admin.broker_runtime(row.address)
    except ResponseError as e:
        if row.broker_id and e.code == ResponseCode.SERVICE_NOT_AVAILABLE:
            return None
        raise
    except OperatingError as e:
        if not is_member:
            raise
        note(f"{row.broker_name} at {row.address} does not answer: {e}")
        return None


@cluster_app.command("list")
def list_brokers(
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
    output: FormatOption = Format.TABLE,
) -> None:
    """List the brokers of all clusters with their rates, and their roles in broker sets.

    A broker of no set has the role -. Nothing stands where a broker does not tell; lag counts the
    bytes that a follower lacks.
    """
    from pocketmq.client import Admin

    async def main() -> list[dict[str, Any]]:
        rows = []
        async with Admin(namesrv) as admin:
            brokers = await admin.brokers()
            of_sets = await set_columns(admin, brokers)
            for row in brokers:
                of_set = of_sets[row.address]
                figures = await _figures(admin, row, is_member="epoch" in of_set)
                rows.append(
                    {
                        "cluster": row.cluster,
                        "broker": row.broker_name,
                        "brokerId": row.broker_id,
                        "address": row.address,
                        **of_set,
                        **({"role": None} if figures is None else _rates(figures)),
                    }
                )
        return rows

    columns = ("cluster", "broker", "brokerId", "address", "role", "epoch", "inSync", "lag",
               "version", "release", "putTps", "getTps", "putTotal", "getTotal",
               "diskRatio")  # fmt: skip
    rows = run(main())
    print_rows(for_people(rows) if output is Format.TABLE else rows, columns, output)


@cluster_app.command("name-servers")
def list_name_servers(
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
    output: FormatOption = Format.TABLE,
) -> None:
    """List the name servers with their releases, and how many brokers each of them knows.

    Apache's, and those before 0.2.0, tell no release.
    """
    from pocketmq.client import Admin
    from pocketmq.client.instance.addresses import namesrv_addresses

    async def main() -> list[dict[str, Any]]:
        rows, failures = [], []
        async with Admin(namesrv) as admin:
            for address in namesrv_addresses(namesrv):
                row: dict[str, Any] = {"address": address}
                try:
                    row["release"] = await admin.namesrv_release(address)
                    info = await admin.namesrv_cluster_info(address)
                    row["brokers"] = len(info.broker_addr_table)
                except OperatingError as e:
                    row["problem"] = str(e)
                    failures.append(e)
                rows.append(row)
        if len(failures) == len(rows):
            raise failures[0]  # there is nothing to list
        return rows

    print_rows(run(main()), ("address", "release", "brokers", "problem"), output)


def _rates(figures: dict[str, str]) -> dict[str, Any]:
    return {
        "version": figures.get("brokerVersionDesc"),
        "release": figures.get(RELEASE_FIGURE),
        "putTps": _first(figures.get("putTps")),
        "getTps": _first(figures.get("getTransferredTps")),
        "putTotal": int(figures.get("msgPutTotalTodayNow", 0)),
        "getTotal": int(figures.get("msgGetTotalTodayNow", 0)),
        "diskRatio": float(figures.get("commitLogDiskRatio", 0)),
    }


def _first(rates: str | None) -> float:
    """Returns the first of several rates: the one of the last ten seconds."""
    return float((rates or "0").split()[0])


@app.command()
def stats(
    broker: BrokerOption = None,
    topic: Annotated[str | None, typer.Option(help="Only this topic, in its windows.")] = None,
    group: Annotated[str | None, typer.Option(help="And this group in it.")] = None,
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
    output: FormatOption = Format.TABLE,
) -> None:
    """Show a broker's figures, or how much went through a topic of late."""
    from pocketmq.client import Admin

    if group is not None and topic is None:
        raise UsageError("--group needs a --topic")

    async def figures() -> list[dict[str, Any]]:
        async with Admin(namesrv) as admin:
            table = await admin.broker_runtime(await broker_address(admin, broker))
        return [{"figure": name, "value": value} for name, value in sorted(table.items())]

    async def windows() -> list[dict[str, Any]]:
        key = topic or ""
        names = ["TOPIC_PUT_NUMS", "TOPIC_PUT_SIZE"]
        if group is not None:
            key, names = f"{topic}@{group}", ["GROUP_GET_NUMS", "GROUP_GET_SIZE", "SNDBCK_PUT_NUMS"]
        rows = []
        async with Admin(namesrv) as admin:
            address = await broker_address(admin, broker)
            for name in names:
                try:
                    answer = await admin.broker_stats(address, name, key)
                except ResponseError:
                    continue  # nothing was counted
                for window, item in (
                    ("minute", answer.stats_minute),
                    ("hour", answer.stats_hour),
                    ("day", answer.stats_day),
                ):
                    rows.append(
                        {
                            "statistic": name,
                            "window": window,
                            "sum": item.sum,
                            "perSecond": round(item.tps, 3),
                            "perRequest": round(item.avgpt, 3),
                        }
                    )
        return rows

    if topic is None:
        print_rows(run(figures()), ("figure", "value"), output)
    else:
        columns = ("statistic", "window", "sum", "perSecond", "perRequest")
        print_rows(run(windows()), columns, output)


@config_app.command("get")
def get_config(
    keys: Annotated[list[str] | None, typer.Argument(help="Only these settings.")] = None,
    broker: BrokerOption = None,
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
    output: FormatOption = Format.TABLE,
) -> None:
    """Show the settings in force."""
    from pocketmq.client import Admin

    async def main() -> dict[str, str]:
        async with Admin(namesrv) as admin:
            return await admin.broker_config(await broker_address(admin, broker))

    settings = run(main())
    unknown = [key for key in keys or () if key not in settings]
    if unknown:
        raise UsageError(f"the broker has no setting {unknown[0]}")
    rows = [{"key": key, "value": settings[key]} for key in keys or sorted(settings)]
    print_rows(rows, ("key", "value"), output)


@config_app.command("set")
def set_config(
    settings: Annotated[list[str], typer.Argument(help="key=value, one or more.")],
    broker: BrokerOption = None,
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
) -> None:
    """Change settings, all or none; they hold at once and over restarts."""
    from pocketmq.client import Admin

    async def main() -> str:
        changes = name_value_pairs("setting", settings)
        async with Admin(namesrv) as admin:
            address = await broker_address(admin, broker)
            await admin.update_broker_config(address, changes)
            return address

    note(f"{', '.join(settings)} on {run(main())}")


@app.command()
def switch(
    broker: BrokerOption = None,
    to: Annotated[
        int, typer.Option("--to", help="The brokerId of the member that is to lead; -1 for any.")
    ] = -1,
    reason: Annotated[str, typer.Option("--reason", help="Kept as the cause of the switch.")] = "",
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
) -> None:
    """Have another member of a broker set lead, without a failed send."""
    from pocketmq.client import Admin

    async def main() -> int:
        async with Admin(namesrv) as admin:
            before = await broker_address(admin, broker)
            name = next((r.broker_name for r in await admin.brokers() if r.address == before), "")
            member = await admin.switch_leader(before, to, reason)
            await _until_led(admin, name, before)
            return member

    note(f"member {run(main())} leads now")


async def _until_led(admin: Admin, broker_name: str, before: str) -> None:
    """Returns when the name servers know the new leader of a broker set.

    Raises:
        UsageError: they do not hear of it.
    """
    for _ in range(LOOKS_MAX):
        masters = {r.broker_name: r.address for r in await admin.brokers() if not r.broker_id}
        if masters.get(broker_name, before) != before:
            return
        await SystemClock().sleep(LOOK_PERIOD_S)
    raise UsageError(
        f"the leadership was handed over, but the new leader of {broker_name} has not registered "
        f"in {LOOKS_MAX * LOOK_PERIOD_S:.0f} s: look at its log"
    )


app.command()(elect)
app.command()(show)


@app.command()
def clean(broker: BrokerOption = None, namesrv: NamesrvOption = NAMESRV_DEFAULT) -> None:
    """Remove expired messages now, and what is left of topics that are gone."""
    from pocketmq.client import Admin

    async def main() -> str:
        async with Admin(namesrv) as admin:
            address = await broker_address(admin, broker)
            await admin.clean_broker(address)
            return address

    note(f"{run(main())} is clean")
