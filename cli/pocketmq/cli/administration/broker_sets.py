"""Columns of listings that tell how brokers stand in their sets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pocketmq.client import Admin, BrokerRow

NO_SET = "-"
"""The role of a broker that is of no set."""


async def set_columns(admin: Admin, rows: Sequence[BrokerRow]) -> dict[str, dict[str, Any]]:
    """What a listing of brokers says of their sets: role, epoch, inSync and lag, by address.

    Args:
        admin: asks.
        rows: all brokers, sorted by cluster, name and id.
    """
    from pocketmq.console.api.brokers.standings import standings

    columns: dict[str, dict[str, Any]] = {}
    for (_, name), group in groupby(rows, attrgetter("cluster", "broker_name")):
        members = list(group)
        of_set = await standings(admin, name, members)
        if not of_set.is_set and len(members) == 1:
            columns[members[0].address] = {"role": NO_SET}
            continue
        columns |= {row.address: of_set.columns(row) for row in members}
    return columns


def for_people(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows with yes and no in the column inSync, for a table."""
    words = {True: "yes", False: "no", None: None}
    return [{**row, "inSync": words[row.get("inSync")]} for row in rows]
