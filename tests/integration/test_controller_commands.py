"""What RocketMQ's tools ask controllers, answered by members of broker sets and by the arbiter."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio
from support.brokers.broker_members import Members
from support.brokers.broker_parts import TIMEOUT_MS, TOPIC, Client, advance_until, send_request
from support.threads import PatientClock

from pocketmq.broker import Broker
from pocketmq.protocol.bodies.brokers import HAStatus
from pocketmq.protocol.bodies.controller import (
    BrokerReplicasInfo,
    ElectedMaster,
    EpochEntryCache,
    ReplicasInfo,
)
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import ResponseError
from pocketmq.protocol.requests.brokers import (
    BrokerEpochRequest,
    CleanBrokerDataRequest,
    ControllerConfigRequest,
    ControllerMetadataRequest,
    ControllerMetadataResponse,
    ElectMasterRequest,
    ElectMasterResponse,
    HAStatusRequest,
    SyncStateRequest,
    UpdateControllerConfigRequest,
)
from pocketmq.protocol.wire.command import Command
from pocketmq.protocol.wire.header import RequestHeader
from pocketmq.testing.clock import VirtualClock

CLUSTER = "DefaultCluster"


@pytest.fixture
def clock() -> VirtualClock:
    return PatientClock()


@pytest_asyncio.fixture
async def pair(tmp_path: Path, clock: VirtualClock) -> AsyncIterator[Members]:
    pair = Members(tmp_path, clock)
    await pair.start()
    yield pair
    await pair.close()


async def ask(pair: Members, address: str, request: RequestHeader, body: bytes = b"") -> Command:
    return await pair.pool().ask(address, request, TIMEOUT_MS, body)


async def refusal(pair: Members, address: str, request: RequestHeader) -> ResponseError:
    with pytest.raises(ResponseError) as refused:
        await ask(pair, address, request)
    assert refused.value.remark
    return refused.value


async def replicas(pair: Members, address: str) -> ReplicasInfo:
    answer = await ask(pair, address, SyncStateRequest(), msgspec.json.encode(["a", "unknown"]))
    table = BrokerReplicasInfo.decode(answer.body).replicas_info_table
    assert table.keys() == {"a"}
    return table["a"]


async def told(pair: Members, address: str) -> ControllerMetadataResponse:
    answer = await ask(pair, address, ControllerMetadataRequest())
    return answer.read(ControllerMetadataResponse)


async def store_some(pair: Members, client: Client, count: int = 5) -> None:
    for _ in range(count):
        await client.ask(send_request(), b"x" * 100)
    log = pair.leader.store.find_log(TOPIC, 0)
    assert log is not None

    def is_copied() -> bool:
        copies = [follower.store.find_log(TOPIC, 0) for follower in pair.followers]
        return all(copy is not None and copy.end_offset == log.end_offset for copy in copies)

    await advance_until(pair.clock, is_copied, 0.2)


# -- whom to ask ------------------------------------------------------------------------------


async def test_members_name_themselves_and_the_name_server_a_leader(pair: Members) -> None:
    for broker in pair.brokers.values():
        metadata = await told(pair, broker.address)
        assert metadata.controller_leader_address == broker.address
        assert metadata.is_leader
    metadata = await told(pair, pair.server.address)
    assert metadata.controller_leader_address == pair.leader.address
    assert metadata.peers == f"a:{pair.leader.address}"


# -- who is in sync ---------------------------------------------------------------------------


async def test_everybody_tells_the_same_in_sync_set(pair: Members) -> None:
    addresses = [pair.server.address, *(b.address for b in pair.brokers.values())]
    for address in addresses:
        info = await replicas(pair, address)
        assert (info.master_broker_id, info.master_address) == (1, pair.leader.address)
        assert (info.master_epoch, info.not_in_sync_replicas) == (1, [])
        assert [(m.broker_id, m.alive) for m in info.in_sync_replicas] == [(1, True), (2, True)]


async def test_a_member_that_is_gone_is_shown_so(pair: Members) -> None:
    await pair.stop(2)
    await pair.until_in_sync(1)
    for address in (pair.server.address, pair.leader.address):
        info = await replicas(pair, address)
        assert [(m.broker_id, m.alive) for m in info.not_in_sync_replicas] == [(2, False)]


async def test_without_any_member_the_name_server_still_tells(pair: Members) -> None:
    address = pair.leader.address
    await pair.stop(2)
    await pair.until_in_sync(1)
    await pair.stop(1)
    metadata = await told(pair, pair.server.address)
    assert metadata.controller_leader_address == pair.server.address
    info = await replicas(pair, pair.server.address)
    assert [(m.broker_address, m.alive) for m in info.in_sync_replicas] == [(address, False)]
    elect = ElectMasterRequest(cluster_name=CLUSTER, broker_name="a", broker_id=2)
    error = await refusal(pair, pair.server.address, elect)
    assert error.code == ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE


# -- switches ---------------------------------------------------------------------------------


@pytest.mark.parametrize("asked", ["leader", "follower"])
async def test_elect_master_switches_whoever_is_asked(pair: Members, asked: str) -> None:
    first = pair.leader
    address = first.address if asked == "leader" else pair.follower.address
    request = ElectMasterRequest(
        cluster_name=CLUSTER, broker_name="a", broker_id=2, designate_elect=True
    )
    answer = await ask(pair, address, request)
    header, body = answer.read(ElectMasterResponse), ElectedMaster.decode(answer.body)
    second = pair.brokers[2]
    assert (header.master_broker_id, header.master_address) == (2, second.address)
    assert header.master_epoch == 2
    assert body.broker_member_group.broker_addrs == {0: second.address, 1: first.address}
    await pair.until_led_by_another(first)
    await pair.until_in_sync()
    info = await replicas(pair, pair.server.address)
    assert info.master_broker_id == 2
    assert info.sync_state_set_epoch >= header.sync_state_set_epoch


async def test_what_cannot_be_elected_is_refused_with_the_reason(pair: Members) -> None:
    leader = pair.leader.address
    for broker_id, code, reason in (
        (1, ResponseCode.CONTROLLER_MASTER_STILL_EXIST, "leads already"),
        (9, ResponseCode.CONTROLLER_ELECT_MASTER_FAILED, "is not in sync"),
    ):
        request = ElectMasterRequest(cluster_name=CLUSTER, broker_name="a", broker_id=broker_id)
        error = await refusal(pair, leader, request)
        assert error.code == code
        assert reason in (error.remark or "")
    request = ElectMasterRequest(cluster_name=CLUSTER, broker_name="unknown", broker_id=1)
    error = await refusal(pair, leader, request)
    assert error.code == ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST


# -- members that are gone for good -----------------------------------------------------------


async def test_a_dead_member_is_forgotten_until_it_comes_back(pair: Members) -> None:
    clean = CleanBrokerDataRequest(
        cluster_name=CLUSTER, broker_name="a", broker_controller_ids_to_clean="2"
    )
    error = await refusal(pair, pair.leader.address, clean)
    assert "alive" in (error.remark or "")
    await pair.stop(2)
    await pair.until_in_sync(1)
    await ask(pair, pair.leader.address, clean)
    info = await replicas(pair, pair.server.address)
    assert not info.not_in_sync_replicas
    error = await refusal(pair, pair.leader.address, clean)
    assert "has no members [2]" in (error.remark or "")
    await pair.start_member(2)
    await pair.until_in_sync()
    assert len((await replicas(pair, pair.server.address)).in_sync_replicas) == 2


# -- settings ---------------------------------------------------------------------------------


async def test_settings_are_shown_and_not_changed(pair: Members) -> None:
    shown = (await ask(pair, pair.follower.address, ControllerConfigRequest())).body.decode()
    assert "leaderLease=5000" in shown
    assert "brokerId=2" in shown
    assert (
        "arbiterPath="
        in (await ask(pair, pair.server.address, ControllerConfigRequest())).body.decode()
    )
    for address in (pair.leader.address, pair.server.address):
        error = await refusal(pair, address, UpdateControllerConfigRequest())
        assert error.code == ResponseCode.NO_PERMISSION


# -- replication ------------------------------------------------------------------------------


async def status(pair: Members, broker: Broker) -> HAStatus:
    return HAStatus.decode((await ask(pair, broker.address, HAStatusRequest())).body)


async def test_ha_status_of_the_leader_and_of_its_follower(pair: Members) -> None:
    await store_some(pair, pair.client(pair.leader))
    leader, follower = await status(pair, pair.leader), await status(pair, pair.follower)
    size = leader.master_commit_log_max_offset
    assert (leader.master, leader.in_sync_slave_nums) == (True, 1)
    (row,) = leader.ha_connection_info
    assert (row.addr, row.in_sync) == (pair.follower.address, True)
    assert (row.slave_ack_offset, row.diff, row.transfer_from_where) == (size, 0, size)
    client = follower.ha_client_runtime_info
    assert not follower.master
    assert (client.master_addr, client.max_offset) == (pair.leader.address, size)
    assert size > 500
    assert client.last_write_timestamp > 0
    await store_some(pair, pair.client(pair.leader), 50)
    await pair.clock.advance(1)
    (row,) = (await status(pair, pair.leader)).ha_connection_info
    assert row.transferred_byte_in_second > 1000


async def test_what_a_follower_lacks_is_shown(pair: Members) -> None:
    await store_some(pair, pair.client(pair.leader))
    peer = pair.leading.leader.peers[2]
    peer._unacknowledged += 100
    (row,) = (await status(pair, pair.leader)).ha_connection_info
    assert row.diff == 100
    peer._unacknowledged -= 100


async def test_a_set_without_records_has_no_epochs(pair: Members) -> None:
    for broker in (pair.leader, pair.follower):
        answer = await ask(pair, broker.address, BrokerEpochRequest())
        cache = EpochEntryCache.decode(answer.body)
        assert (cache.epoch_list, cache.max_offset) == ([], 0)


async def test_members_with_the_same_records_tell_the_same_epochs(pair: Members) -> None:
    await store_some(pair, pair.client(pair.leader))
    await pair.switch()
    await store_some(pair, pair.client(pair.leader))
    told = [
        EpochEntryCache.decode((await ask(pair, b.address, BrokerEpochRequest())).body)
        for b in (pair.leader, pair.follower)
    ]
    assert [cache.broker_id for cache in told] == [0, 1]
    assert told[0].epoch_list == told[1].epoch_list
    first, second = told[0].epoch_list
    assert (first.epoch, first.start_offset, second.epoch) == (1, 0, 2)
    assert first.end_offset == second.start_offset > 0
    assert second.end_offset == told[0].max_offset > second.start_offset
