"""Administration of clusters and brokers: members, statistics, settings, write permissions."""

from __future__ import annotations

from collections.abc import Mapping

from pocketmq.client.admin.calls import AdminCalls
from pocketmq.client.admin.results import BrokerRow
from pocketmq.protocol.bodies.brokers import BrokerStats
from pocketmq.protocol.bodies.topics import KVTable
from pocketmq.protocol.requests.brokers import (
    BrokerStatsRequest,
    CleanUnusedTopicsRequest,
    DeleteExpiredFilesRequest,
    UpdateBrokerConfigRequest,
)
from pocketmq.protocol.requests.nameserver import (
    AddWritePermRequest,
    AddWritePermResponse,
    WipeWritePermRequest,
    WipeWritePermResponse,
)
from pocketmq.protocol.requests.topics import BrokerConfigRequest, RuntimeInfoRequest
from pocketmq.runtime.settings import properties_from_text, properties_text


class BrokerAdmin(AdminCalls):
    """The methods of `Admin` for clusters and brokers."""

    async def brokers(self) -> list[BrokerRow]:
        """Returns all brokers, sorted by cluster, name and id."""
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
        """Returns a broker's runtime figures, such as ``putTps`` or ``msgPutTotalTodayNow``."""
        return KVTable.decode((await self._ask(broker_addr, RuntimeInfoRequest())).body).table

    async def broker_config(self, broker_addr: str) -> dict[str, str]:
        """Returns a broker's settings."""
        answer = await self._ask(broker_addr, BrokerConfigRequest())
        return properties_from_text(answer.body.decode())

    async def update_broker_config(self, broker_addr: str, changes: Mapping[str, object]) -> None:
        """Changes all given settings of a broker, or none; the changes hold at once.

        Args:
            broker_addr: which broker.
            changes: values by the broker's own keys, such as ``fileReservedTime``.

        Raises:
            ResponseError: 1, a key does not exist or a value does not fit it (RocketMQ's brokers
                pass over such); 16, it can only be changed in the broker's configuration.
        """
        values = {
            key: str(value).lower() if isinstance(value, bool) else str(value)
            for key, value in changes.items()
        }
        await self._ask(broker_addr, UpdateBrokerConfigRequest(), properties_text(values).encode())

    async def broker_stats(self, broker_addr: str, name: str, key: str) -> BrokerStats:
        """Returns a statistic of one broker in the last minute, hour and day.

        Args:
            broker_addr: which broker.
            name: TOPIC_PUT_NUMS, TOPIC_PUT_SIZE, GROUP_GET_NUMS, GROUP_GET_SIZE, SNDBCK_PUT_NUMS,
                BROKER_PUT_NUMS or BROKER_GET_NUMS.
            key: the topic, ``topic@group``, or for the broker's own the cluster's name.

        Raises:
            ResponseError: 1, nothing was counted under that name and key.
        """
        request = BrokerStatsRequest(stats_name=name, stats_key=key)
        return BrokerStats.decode((await self._ask(broker_addr, request)).body)

    async def clean_broker(self, broker_addr: str) -> None:
        """Makes a broker remove expired files, and the queues of deleted topics."""
        await self._ask(broker_addr, DeleteExpiredFilesRequest())
        await self._ask(broker_addr, CleanUnusedTopicsRequest())

    async def wipe_write_perm(self, broker_name: str) -> int:
        """Takes a broker out of all routes for writing; returns how many topics changed."""
        answers = await self._link.ask_all(WipeWritePermRequest(broker_name=broker_name))
        return max(a.read(WipeWritePermResponse).wipe_topic_count for a in answers)

    async def add_write_perm(self, broker_name: str) -> int:
        """Undoes `wipe_write_perm`; returns how many topics changed."""
        answers = await self._link.ask_all(AddWritePermRequest(broker_name=broker_name))
        return max(a.read(AddWritePermResponse).add_topic_count for a in answers)
