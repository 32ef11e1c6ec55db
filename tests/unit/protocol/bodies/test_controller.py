"""Bodies about broker sets, as RocketMQ's controllers write them."""

from __future__ import annotations

import pytest

from pocketmq.protocol.bodies.controller import (
    NAMES_MAX,
    BrokerReplicasInfo,
    ElectedMaster,
    EpochEntry,
    EpochEntryCache,
    ReplicaIdentity,
    ReplicasInfo,
    names_of_request,
)
from pocketmq.protocol.bodies.routes import MemberGroup
from pocketmq.protocol.errors import ContentError


def test_the_in_sync_set_has_rocketmqs_fields() -> None:
    member = ReplicaIdentity(broker_name="a", broker_id=1, broker_address="h:1", alive=True)
    info = ReplicasInfo(
        master_broker_id=1, master_address="h:1", master_epoch=2, sync_state_set_epoch=3,
        in_sync_replicas=[member],
    )  # fmt: skip
    body = BrokerReplicasInfo(replicas_info_table={"a": info})
    assert body.encode(quote_keys=True) == (
        b'{"replicasInfoTable":{"a":{"inSyncReplicas":[{"alive":true,"brokerAddress":"h:1",'
        b'"brokerId":1,"brokerName":"a"}],"masterAddress":"h:1","masterBrokerId":1,'
        b'"masterEpoch":2,"notInSyncReplicas":[],"syncStateSetEpoch":3}}}'
    )
    assert BrokerReplicasInfo.decode(body.encode()) == body


def test_elections_and_epochs_are_read_as_they_were_written() -> None:
    group = MemberGroup(cluster="c", broker_name="a", broker_addrs={0: "h:1", 2: "h:2"})
    elected = ElectedMaster(broker_member_group=group, sync_state_set=[1])
    assert ElectedMaster.decode(elected.encode()) == elected
    entry = EpochEntry(epoch=1, start_offset=0, end_offset=9)
    cache = EpochEntryCache(cluster_name="c", broker_name="a", broker_id=0, epoch_list=[entry])
    assert EpochEntryCache.decode(cache.encode()) == cache


@pytest.mark.parametrize("body", [b"", b"{}", b'["a", 1]', b"[" + b'"a",' * NAMES_MAX + b'"a"]'])
def test_other_bodies_than_a_list_of_names_are_refused(body: bytes) -> None:
    assert names_of_request(b'["a","b"]') == ["a", "b"]
    with pytest.raises(ContentError):
        names_of_request(body)
