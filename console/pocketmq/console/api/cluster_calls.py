"""The operations on clusters and brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from pocketmq.client.admin.results import BrokerRow
from pocketmq.console.api.bodies.cluster import Broker, Cluster
from pocketmq.console.api.callers import Callers, Clients
from pocketmq.console.api.paths import PREFIX
from pocketmq.console.web.operations import Call, Operation
from pocketmq.protocol.errors import NoPermissionError, PocketMQError


class ClusterCalls:
    """Shows clusters and their brokers.

    Args:
        callers: their clients.
    """

    def __init__(self, callers: Callers) -> None:
        self._callers = callers

    def operations(self) -> list[Operation]:
        """Returns the operations of this family."""
        serve = self._callers.serve
        return [
            Operation(
                "GET", f"{PREFIX}/cluster", "getCluster",
                "All brokers with their rates; one that does not answer says why.",
                serve(self.cluster), Cluster,
            ),
        ]  # fmt: skip

    async def cluster(self, clients: Clients, call: Call) -> Cluster:
        """Shows all brokers."""
        rows = await clients.admin.brokers()
        brokers = await asyncio.gather(*(_broker(clients, row) for row in rows))
        return Cluster(
            name_servers=self._callers.namesrv.split(";"),
            brokers=brokers,
            silent=self._callers.reach.gone(row.broker_name for row in rows),
        )


async def _broker(clients: Clients, row: BrokerRow) -> Broker:
    shown = Broker(cluster=row.cluster, name=row.broker_name, id=row.broker_id, address=row.address)
    try:
        told = await clients.admin.broker_runtime(row.address)
    except NoPermissionError:
        raise
    except PocketMQError as e:
        shown.problem = str(e)
        return shown
    shown.version = told.get("brokerVersionDesc")
    shown.started_ms = _number(told, "bootTimestamp")
    shown.in_rate, shown.out_rate = _rate(told, "putTps"), _rate(told, "getTransferredTps")
    shown.stored_today = _difference(told, "msgPutTotalTodayNow", "msgPutTotalTodayMorning")
    shown.delivered_today = _difference(told, "msgGetTotalTodayNow", "msgGetTotalTodayMorning")
    shown.disk_used = _decimal(told, "commitLogDiskRatio")
    return shown


def _number(told: Mapping[str, str], key: str) -> int | None:
    text = told.get(key, "")
    return int(text) if text.isdigit() else None


def _difference(told: Mapping[str, str], now: str, before: str) -> int | None:
    first, last = _number(told, before), _number(told, now)
    return None if first is None or last is None else last - first


def _rate(told: Mapping[str, str], key: str) -> float | None:
    """The rate of the last ten seconds, the first of RocketMQ's three."""
    return _decimal({key: told.get(key, "").partition(" ")[0]}, key)


def _decimal(told: Mapping[str, str], key: str) -> float | None:
    try:
        return float(told[key])
    except (KeyError, ValueError):
        return None
