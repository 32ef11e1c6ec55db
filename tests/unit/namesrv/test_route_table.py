"""The rules of behaviour.md §1, one by one."""

from __future__ import annotations

import pytest
from support.namesrv.builders import (
    CLUSTER,
    NOW_MS,
    TIMEOUT_MS,
    address_of,
    key_of,
    registration,
    topic_config,
)

from pocketmq.namesrv import route_table
from pocketmq.namesrv.broker_registration import BrokerKey, MasterAddresses
from pocketmq.namesrv.route_table import RouteTable
from pocketmq.protocol.bodies.routes import QueueData
from pocketmq.protocol.bodies.topics import DataVersion, TopicQueueMapping
from pocketmq.protocol.errors import ResponseError


@pytest.fixture
def table() -> RouteTable:
    return RouteTable()


def addresses(table: RouteTable, name: str = "broker-a") -> dict[int, str]:
    return table.member_group(CLUSTER, name).broker_addrs


def perms(table: RouteTable, topic: str = "TopicA") -> list[int]:
    return [queues.perm for queues in table.topics.queues(topic)]


def read_queues(table: RouteTable, topic: str) -> list[int]:
    return [queues.read_queue_nums for queues in table.topics.queues(topic)]


# -- registration -------------------------------------------------------------------------------


def test_a_master_registers_its_topics(table: RouteTable) -> None:
    assert table.register(registration(), NOW_MS) == MasterAddresses()
    route = table.route("TopicA")
    assert route is not None
    assert [(q.broker_name, q.read_queue_nums, q.perm) for q in route.queue_datas] == [
        ("broker-a", 4, 6)
    ]
    (broker,) = route.broker_datas
    assert (broker.cluster, broker.broker_addrs) == (CLUSTER, {0: address_of("broker-a")})
    assert table.route("Unknown") is None


def test_a_slave_is_told_its_master_and_its_topics_do_not_count(table: RouteTable) -> None:
    table.register(registration(), NOW_MS)
    answer = table.register(registration("broker-a", "S1", "S2", broker_id=1), NOW_MS)
    assert answer == MasterAddresses(address_of("broker-a"), "broker-a.0:10912")
    assert addresses(table) == {0: address_of("broker-a"), 1: address_of("broker-a", 1)}
    assert table.route("S1") is None


def test_a_slave_without_a_master_is_told_nothing(table: RouteTable) -> None:
    assert table.register(registration(broker_id=1), NOW_MS) == MasterAddresses()


def test_the_lowest_slave_registers_topics_if_it_knows_of_acting_masters(table: RouteTable) -> None:
    table.register(registration("broker-a", "S1", "S2", broker_id=2), NOW_MS)
    table.register(registration("broker-a", "U1", "U2", broker_id=3), NOW_MS)
    table.register(registration("broker-b", "V1", "V2", broker_id=1, acting_master=None), NOW_MS)
    assert sorted(table.topics.topics()) == ["S1", "S2"]
    assert perms(table, "S1") == [6]


def test_an_acting_master_takes_no_messages(table: RouteTable) -> None:
    table.register(registration(broker_id=1, acting_master=True), NOW_MS)
    assert perms(table) == [4]


def test_topics_are_taken_only_with_a_new_version(table: RouteTable) -> None:
    table.register(registration("broker-a", "T1", "T2", version=1), NOW_MS)
    table.register(registration("broker-a", topic_config("T1", queues=8), "T3", version=1), NOW_MS)
    assert read_queues(table, "T1") == [4]
    assert table.route("T3") is not None, "a topic that is not known yet is taken anyway"
    table.register(registration("broker-a", topic_config("T1", queues=8), "T3", version=2), NOW_MS)
    assert read_queues(table, "T1") == [8]
    assert table.route("T2") is not None, "topics are not dropped by leaving them out"


def test_topics_left_out_are_dropped_on_demand(table: RouteTable) -> None:
    table.register(registration("broker-a", "T1", "T2"), NOW_MS)
    table.register(registration("broker-b", "T1", "T2"), NOW_MS)
    table.register(registration("broker-a", "T2", "T3", version=2), NOW_MS, drops_other_topics=True)
    assert [q.broker_name for q in table.topics.queues("T1")] == ["broker-b"]
    assert sorted(table.topics.topics()) == ["T1", "T2", "T3"]


def test_removed_topics_are_removed_by_name(table: RouteTable) -> None:
    table.register(registration("broker-a", "T1", "T2"), NOW_MS)
    table.register(registration("broker-b", "T1", "T2"), NOW_MS)
    change = registration("broker-a", version=2)
    change.topics, change.removed, change.is_partial = [], ["T1", "Unknown"], True
    table.register(change, NOW_MS)
    assert [q.broker_name for q in table.topics.queues("T1")] == ["broker-b"]
    assert len(table.topics.queues("T2")) == 2
    assert table.version_of(key_of("broker-a")) == change.version


def test_static_topics_are_never_dropped_that_way(table: RouteTable) -> None:
    table.register(registration("broker-a", "T1", "T2"), NOW_MS)
    mapping = TopicQueueMapping(topic="T2", bname="broker-a", total_queues=4)
    table.register(
        registration("broker-a", "T2", version=2, mappings={"T2": mapping}),
        NOW_MS,
        drops_other_topics=True,
    )
    assert table.route("T1") is not None
    route = table.route("T2")
    assert route is not None
    assert route.topic_queue_mapping_by_broker == {"broker-a": mapping}


def test_an_address_has_one_id(table: RouteTable) -> None:
    table.register(registration(broker_id=1), NOW_MS)
    table.register(registration(broker_id=0, address=address_of("broker-a", 1)), NOW_MS)
    assert addresses(table) == {0: address_of("broker-a", 1)}


def test_an_address_has_one_broker_name(table: RouteTable) -> None:
    table.register(registration("broker-a", address="host:1"), NOW_MS)
    table.register(registration("broker-b", address="host:1"), NOW_MS)
    assert table.cluster_info().cluster_addr_table == {CLUSTER: ["broker-b"]}


def test_an_id_goes_to_the_address_that_registers_last(table: RouteTable) -> None:
    table.register(registration(address="old:1"), NOW_MS)
    table.register(registration(address="new:1"), NOW_MS)
    assert addresses(table) == {0: "new:1"}
    table.connection_closed(None)
    assert addresses(table) == {}


def test_the_old_address_of_an_id_takes_nothing_with_it(table: RouteTable) -> None:
    old, new = object(), object()
    table.register(registration(address="old:1", channel=old), NOW_MS)
    table.register(registration(address="new:1", channel=new), NOW_MS)
    table.connection_closed(old)
    assert addresses(table) == {0: "new:1"}
    assert table.route("TopicA") is not None


def test_a_lower_state_version_does_not_take_an_id(table: RouteTable) -> None:
    table.register(registration(address="new:1", state_version=2), NOW_MS)
    table.register(registration(broker_id=1, address="old:1", state_version=1), NOW_MS)
    answer = table.register(
        registration("broker-a", "T1", "T2", address="old:1", state_version=1), NOW_MS
    )
    assert answer == MasterAddresses()
    assert addresses(table) == {0: "new:1"}, "the loser's former id is gone as well"
    assert table.route("T1") is None
    assert table.version_of(BrokerKey(CLUSTER, "old:1")) is None


def test_a_single_topic_of_an_unknown_broker_is_refused(table: RouteTable) -> None:
    with pytest.raises(ResponseError, match="register broker failed") as e:
        table.register(registration("broker-a", "T1"), NOW_MS)
    assert e.value.code == 1
    assert table.cluster_info().broker_addr_table == {}, "nothing is left behind"
    table.register(registration(), NOW_MS)
    table.register(registration("broker-a", "T1", version=2), NOW_MS)
    assert table.route("T1") is not None


def test_a_registration_without_topics_is_fine(table: RouteTable) -> None:
    empty = registration()
    empty.topics = []
    table.register(empty, NOW_MS)
    assert addresses(table) == {0: address_of("broker-a")}
    assert table.topics.topics() == []


def test_the_number_of_brokers_is_bounded(
    table: RouteTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(route_table, "BROKERS_MAX", 1)
    table.register(registration(), NOW_MS)
    table.register(registration(), NOW_MS)
    with pytest.raises(ResponseError, match="the limit"):
        table.register(registration("broker-b"), NOW_MS)
    assert table.system_topics() == [CLUSTER, "broker-a"]


# -- data versions and signs of life ------------------------------------------------------------


def test_data_versions_are_compared_whole(table: RouteTable) -> None:
    table.register(registration(version=3, state_version=1), NOW_MS)
    key = key_of("broker-a")
    known = DataVersion(counter=3, state_version=1, timestamp=NOW_MS)
    assert table.version_of(key) == known
    assert not table.is_changed(key, known)
    assert table.is_changed(key, DataVersion(counter=4, state_version=1, timestamp=NOW_MS))
    assert table.is_changed(key, DataVersion(counter=3, state_version=2, timestamp=NOW_MS))
    assert table.is_changed(key, DataVersion(counter=3, state_version=1, timestamp=NOW_MS + 1))
    assert table.is_changed(key_of("unknown"), known)


def test_a_silent_broker_expires_after_its_time(table: RouteTable) -> None:
    channel = object()
    table.register(registration(channel=channel), NOW_MS)
    table.register(registration("broker-b", timeout_ms=10_000), NOW_MS)
    assert dict(table.expire(NOW_MS + 10_000)) == {}
    assert dict(table.expire(NOW_MS + 10_001)) == {key_of("broker-b"): None}
    assert dict(table.expire(NOW_MS + TIMEOUT_MS)) == {}
    assert dict(table.expire(NOW_MS + TIMEOUT_MS + 1)) == {key_of("broker-a"): channel}
    assert table.route("TopicA") is None
    assert table.cluster_info().cluster_addr_table == {}


def test_a_sign_of_life_puts_expiry_off(table: RouteTable) -> None:
    table.register(registration(), NOW_MS)
    table.touch(key_of("broker-a"), NOW_MS + 100_000)
    table.touch(key_of("unknown"), NOW_MS)
    assert dict(table.expire(NOW_MS + TIMEOUT_MS + 1)) == {}


# -- brokers go ---------------------------------------------------------------------------------


def test_with_its_last_address_a_broker_name_and_its_queues_go(table: RouteTable) -> None:
    table.register(registration(), NOW_MS)
    table.register(registration(broker_id=1), NOW_MS)
    table.register(registration("broker-b", "TopicA", "OnlyB"), NOW_MS)
    assert table.unregister(key_of("broker-a", 0), "broker-a")
    assert addresses(table) == {1: address_of("broker-a", 1)}
    assert len(table.topics.queues("TopicA")) == 2
    assert table.unregister(key_of("broker-a", 1), "broker-a")
    assert [q.broker_name for q in table.topics.queues("TopicA")] == ["broker-b"]
    assert table.route("TopicB") is None
    assert not table.unregister(key_of("broker-a", 1), "broker-a")
    assert table.system_topics() == [CLUSTER, "broker-b"]


def test_losing_the_master_wipes_the_write_permission_for_acting_masters(table: RouteTable) -> None:
    for broker_id in (0, 1):
        table.register(registration(broker_id=broker_id, acting_master=True), NOW_MS)
        table.register(registration("broker-b", "B1", "B2", broker_id=broker_id), NOW_MS)
    table.unregister(key_of("broker-a", 0), "broker-a")
    table.unregister(key_of("broker-b", 0), "broker-b")
    assert perms(table, "TopicA") == [4]
    assert perms(table, "B1") == [6]


def test_a_wrong_name_does_not_hide_the_broker(table: RouteTable) -> None:
    table.register(registration(), NOW_MS)
    table.unregister(key_of("broker-a"), "broker-x")
    assert table.cluster_info().broker_addr_table == {}


def test_a_closed_connection_takes_the_brokers_that_registered_on_it(table: RouteTable) -> None:
    old, new = object(), object()
    table.register(registration(channel=old), NOW_MS)
    table.register(registration("broker-b", channel=old), NOW_MS)
    table.register(registration("broker-b", channel=new), NOW_MS)
    assert table.connection_closed(old) == [key_of("broker-a")]
    assert table.connection_closed(old) == []
    assert table.system_topics() == [CLUSTER, "broker-b"]


# -- topics by hand -----------------------------------------------------------------------------


def test_write_permission_is_wiped_and_given_back_until_the_next_change(table: RouteTable) -> None:
    table.register(registration("broker-a", topic_config("T1", perm=7), "T2"), NOW_MS)
    assert table.wipe_write_perm("broker-a") == 2
    assert perms(table, "T1") == [5]
    table.register(registration("broker-a", topic_config("T1", perm=7), "T2"), NOW_MS)
    assert perms(table, "T1") == [5], "nothing new was registered"
    assert table.add_write_perm("broker-a") == 2
    assert perms(table, "T1") == [6]
    table.register(registration("broker-a", topic_config("T1", perm=7), "T2", version=2), NOW_MS)
    assert perms(table, "T1") == [7]
    assert table.wipe_write_perm("unknown") == 0


def test_a_topic_is_deleted_everywhere_or_in_one_cluster(table: RouteTable) -> None:
    table.register(registration("broker-a"), NOW_MS)
    table.register(registration("broker-b", cluster="Other"), NOW_MS)
    table.delete_topic("TopicA", "Other")
    table.delete_topic("TopicA", "Unknown")
    assert [q.broker_name for q in table.topics.queues("TopicA")] == ["broker-a"]
    table.delete_topic("TopicB")
    assert table.topics.topics() == ["TopicA"]
    table.delete_topic("TopicA", CLUSTER)
    assert table.topics.topics() == []


def test_queues_are_added_by_hand_for_known_brokers_only(table: RouteTable) -> None:
    table.register(registration(), NOW_MS)
    queues = [
        QueueData(broker_name=name, read_queue_nums=1, write_queue_nums=1, perm=6)
        for name in ("broker-a", "broker-x")
    ]
    with pytest.raises(ResponseError, match="broker-x is not known here"):
        table.register_topic("New", queues)
    assert table.route("New") is None
    table.register_topic("New", queues[:1])
    assert table.route("New") is not None


# -- lists --------------------------------------------------------------------------------------


def test_lists(table: RouteTable) -> None:
    assert table.any_broker() is None
    table.register(registration("broker-a", "T1", "T2"), NOW_MS)
    table.register(registration("broker-b", "T2", "T3", cluster="Other"), NOW_MS)
    assert sorted(table.topics_of_cluster(CLUSTER)) == ["T1", "T2"]
    assert table.topics_of_cluster("Unknown") == []
    assert table.system_topics() == [CLUSTER, "broker-a", "Other", "broker-b"]
    assert table.any_broker() == key_of("broker-a")
    info = table.cluster_info()
    assert info.cluster_addr_table == {CLUSTER: ["broker-a"], "Other": ["broker-b"]}
    assert set(info.broker_addr_table) == {"broker-a", "broker-b"}
    assert table.member_group(CLUSTER, "unknown").broker_addrs == {}
