"""Clusters and brokers: who there is, figures, settings, write permissions."""

from __future__ import annotations

from pocketmq.client.admin.calls import AdminCalls
from pocketmq.client.admin_results import BrokerRow, parse_properties_text
from pocketmq.protocol.bodies.topics import KVTable
from pocketmq.protocol.requests.nameserver import (
    AddWritePermRequest,
    AddWritePermResponse,
    WipeWritePermRequest,
    WipeWritePermResponse,
)
from pocketmq.protocol.requests.topics import BrokerConfigRequest, RuntimeInfoRequest


class BrokerAdmin(AdminCalls):
    """What `Admin` does with clusters and brokers."""

    async def brokers(self) -> list[BrokerRow]:
        """All brokers, sorted by cluster, name and id."""
        info = await self.cluster_info()
        rows = [
            BrokerRow(cluster, name, broker_id, address)
            for cluster, names in info.cluster_addr_table.items()
            for name in names
            if name in info.broker_addr_table
            for broker_id, address in info.broker_addr_table[name].broker_addrs.items()
        ]
        return sorted(rows, key=lambda row: (row.cluster, row.broker_name, row.broker_id))

    async def broker_runtime(self, broker_addr: str) -> dict[str, str]:
        """A broker's figures, such as ``putTps`` or ``msgPutTotalTodayNow``."""
        return KVTable.decode((await self._ask(broker_addr, RuntimeInfoRequest())).body).table

    async def broker_config(self, broker_addr: str) -> dict[str, str]:
        """A broker's settings."""
        answer = await self._ask(broker_addr, BrokerConfigRequest())
        return parse_properties_text(answer.body.decode())

    async def wipe_write_perm(self, broker_name: str) -> int:
        """Takes a broker out of all routes for writing; returns how many topics that were."""
        answers = await self._link.ask_all(WipeWritePermRequest(broker_name=broker_name))
        return max(a.read(WipeWritePermResponse).wipe_topic_count for a in answers)

    async def add_write_perm(self, broker_name: str) -> int:
        """Undoes `wipe_write_perm`; returns how many topics that were."""
        answers = await self._link.ask_all(AddWritePermRequest(broker_name=broker_name))
        return max(a.read(AddWritePermResponse).add_topic_count for a in answers)
