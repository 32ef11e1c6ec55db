"""Administration of clusters and brokers: members, statistics, settings, write permissions."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from pocketmq.client.admin.calls import AdminCalls
from pocketmq.client.admin.results import BrokerRow
from pocketmq.protocol.bodies.brokers import BrokerStats, HAStatus, SettingDetail, SettingDetails
from pocketmq.protocol.bodies.controller import BrokerReplicasInfo, ReplicasInfo
from pocketmq.protocol.bodies.replication import MemberReport
from pocketmq.protocol.bodies.routes import ClusterInfo
from pocketmq.protocol.bodies.topics import KVTable
from pocketmq.protocol.requests.brokers import (
    BrokerStatsRequest,
    CleanUnusedTopicsRequest,
    DeleteExpiredFilesRequest,
    HAStatusRequest,
    SyncStateRequest,
    UpdateBrokerConfigRequest,
)
from pocketmq.protocol.requests.extensions.backups import (
    BackupLogsRequest,
    BackupLogsResponse,
    BackupTablesRequest,
    BackupTablesResponse,
)
from pocketmq.protocol.requests.extensions.replication import (
    DescribeMemberRequest,
    ElectMemberRequest,
    ElectMemberResponse,
    SwitchLeaderRequest,
    SwitchLeaderResponse,
)
from pocketmq.protocol.requests.nameserver import (
    AddWritePermRequest,
    AddWritePermResponse,
    ClusterInfoRequest,
    ClusterInfoResponse,
    NamesrvConfigRequest,
    WipeWritePermRequest,
    WipeWritePermResponse,
)
from pocketmq.protocol.requests.topics import (
    BrokerConfigRequest,
    BrokerConfigResponse,
    RuntimeInfoRequest,
)
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

    async def namesrv_cluster_info(self, namesrv_addr: str) -> ClusterInfo:
        """Returns all clusters and their brokers as one name server knows them."""
        return ClusterInfo.decode((await self._ask(namesrv_addr, ClusterInfoRequest())).body)

    async def namesrv_release(self, namesrv_addr: str) -> str | None:
        """Returns a name server's release of PocketMQ; None if it tells none, as Apache's."""
        answer = await self._ask(namesrv_addr, ClusterInfoRequest())
        return answer.read(ClusterInfoResponse).pocketmq_version

    async def namesrv_config(self, namesrv_addr: str) -> dict[str, str]:
        """Returns the settings of a name server."""
        answer = await self._ask(namesrv_addr, NamesrvConfigRequest())
        return properties_from_text(answer.body.decode())

    async def broker_runtime(self, broker_addr: str) -> dict[str, str]:
        """Returns a broker's runtime figures, such as ``putTps`` or ``msgPutTotalTodayNow``."""
        return KVTable.decode((await self._ask(broker_addr, RuntimeInfoRequest())).body).table

    async def broker_config(self, broker_addr: str) -> dict[str, str]:
        """Returns a broker's settings."""
        answer = await self._ask(broker_addr, BrokerConfigRequest())
        return properties_from_text(answer.body.decode())

    async def broker_settings(
        self, broker_addr: str, changes: Mapping[str, object] | None = None
    ) -> tuple[list[SettingDetail], str]:
        """Returns a broker's settings with their defaults, and the version of the settings.

        Apache's brokers tell the values only, and nothing of changes.

        Args:
            broker_addr: which broker.
            changes: tells the values as they would be after these, which are not made.

        Raises:
            ResponseError: as for `update_broker_config`.
        """
        body = properties_text(_texts(changes or {})).encode()
        answer = await self._ask(broker_addr, BrokerConfigRequest(detailed=True), body)
        head = answer.read(BrokerConfigResponse)
        if head.detailed:
            return SettingDetails.decode(answer.body).settings, head.version
        found = properties_from_text(answer.body.decode())
        return [SettingDetail(key=key, value=found[key]) for key in sorted(found)], head.version

    async def update_broker_config(self, broker_addr: str, changes: Mapping[str, object]) -> None:
        """Changes all given settings of a broker, or none; the changes hold at once.

        Args:
            broker_addr: which broker.
            changes: values by the broker's own keys, such as ``fileReservedTime``.

        Raises:
            ResponseError: 1, a key does not exist or a value does not fit it (RocketMQ's brokers
                pass over such); 16, it can only be changed in the broker's configuration.
        """
        text = properties_text(_texts(changes))
        await self._ask(broker_addr, UpdateBrokerConfigRequest(), text.encode())

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

    async def switch_leader(self, broker_addr: str, member_id: int = -1, reason: str = "") -> int:
        """Has another member of a broker set lead; returns the id of the member that leads then.

        Args:
            broker_addr: the leader.
            member_id: of the member that is to lead; -1 for any that is in sync.
            reason: is kept as the cause of the switch.

        Raises:
            ResponseError: 3, the broker is of no set; 14, it does not lead; 2012, the member is not
                in sync, or the arbiter does not answer: the leader leads on.
        """
        request = SwitchLeaderRequest(member_id=member_id, reason=reason)
        return (await self._ask(broker_addr, request)).read(SwitchLeaderResponse).leader_id

    async def backup_tables(
        self, broker_addr: str, snapshot: str = "", page: int = 0
    ) -> tuple[BackupTablesResponse, bytes]:
        """Returns a page of a broker's snapshot, for `pocketmq store backup`.

        Args:
            broker_addr: the broker, of a broker set the leader.
            snapshot: whose page; empty to have a snapshot taken.
            page: counted from 0.

        Raises:
            ResponseError: 14, the broker does not lead its set; 1, the snapshot is not known any
                more.
        """
        request = BackupTablesRequest(snapshot=snapshot, page=page)
        answer = await self._ask(broker_addr, request)
        return answer.read(BackupTablesResponse), bytes(answer.body)

    async def backup_logs(self, broker_addr: str, snapshot: str, wants: bytes) -> tuple[int, bytes]:
        """Returns how many wants are fulfilled, and records of a broker's logs.

        Args:
            broker_addr: the broker.
            snapshot: up to whose ends.
            wants: which records, encoded.

        Raises:
            ResponseError: as for `backup_tables`.
        """
        answer = await self._ask(broker_addr, BackupLogsRequest(snapshot=snapshot), wants)
        return answer.read(BackupLogsResponse).done, bytes(answer.body)

    async def describe_member(self, broker_addr: str) -> MemberReport:
        """Tells what a member of a broker set has, whether it leads or follows.

        Raises:
            ResponseError: 3, the broker is of no set.
        """
        return MemberReport.decode((await self._ask(broker_addr, DescribeMemberRequest())).body)

    async def ha_status(self, broker_addr: str) -> HAStatus:
        """Tells how a broker replicates: a leader what each follower lacks (907)."""
        return HAStatus.decode((await self._ask(broker_addr, HAStatusRequest())).body)

    async def sync_state_sets(self, broker_addr: str, *names: str) -> dict[str, ReplicasInfo]:
        """Tells who leads broker sets and who is in sync, by brokerName (1006).

        Args:
            broker_addr: a member of a broker set, or the name server with the arbiter.
            names: of sets of its cluster; others are left out of the answer.

        Raises:
            ResponseError: the broker is of no set.
        """
        body = msgspec.json.encode(names)
        answer = await self._ask(broker_addr, SyncStateRequest(), body)
        return BrokerReplicasInfo.decode(answer.body).replicas_info_table

    async def elect_member(
        self,
        broker_addr: str,
        version: int,
        epoch: int,
        *,
        unclean: bool = False,
        reason: str = "",
    ) -> int:
        """Has a member lead its broker set, whose leader is gone; returns the new epoch.

        Args:
            broker_addr: the member.
            version: of the set's state, as the member's report tells it; another one is refused.
            epoch: the highest that any member has seen.
            unclean: also if the member is not in sync, or the arbiter has lost the set's state:
                what only other members have is lost.
            reason: is kept as the cause of the election.

        Raises:
            ResponseError: 2012, the member may not lead; the text says why.
        """
        request = ElectMemberRequest(version=version, epoch=epoch, unclean=unclean, reason=reason)
        return (await self._ask(broker_addr, request)).read(ElectMemberResponse).epoch

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


def _texts(changes: Mapping[str, object]) -> dict[str, str]:
    """Values as properties hold them."""
    return {
        key: str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in changes.items()
    }
