from __future__ import annotations

import ipaddress
import json

import pytest
from support.namesrv.builders import CLUSTER, NOW_MS, address_of, key_of, registration

from pocketmq.namesrv import route_answers
from pocketmq.namesrv.config import NamesrvConfig
from pocketmq.namesrv.kv_config import ORDER_TOPIC_NAMESPACE, KVConfig
from pocketmq.namesrv.route_answers import RouteAnswers
from pocketmq.namesrv.route_table import RouteTable
from pocketmq.protocol.bodies.routes import TopicRoute
from pocketmq.protocol.bodies.topics import TopicQueueMapping
from pocketmq.protocol.names.advertise import IPAddress

INSIDE = ipaddress.ip_address("172.30.76.5")
OUTSIDE = ipaddress.ip_address("10.0.0.1")


class Answering:
    def __init__(self) -> None:
        self.table = RouteTable()
        self.kv = KVConfig()
        self.config = NamesrvConfig()
        self.answers = RouteAnswers(self.table, self.kv, self.config)

    def route(
        self,
        topic: str = "TopicA",
        caller: IPAddress | None = OUTSIDE,
        zone: str = "",
    ) -> TopicRoute | None:
        data = self.answers.topic(topic, caller, quote_keys=True, zone=zone)
        return None if data is None else TopicRoute.decode(data)

    def addresses(self, **question: object) -> dict[str, dict[int, str]]:
        route = self.route(**question)  # type: ignore[arg-type]
        assert route is not None
        queue_names = {queues.broker_name for queues in route.queue_datas}
        assert queue_names == {data.broker_name for data in route.broker_datas}
        return {data.broker_name: data.broker_addrs for data in route.broker_datas}


@pytest.fixture
def answering() -> Answering:
    return Answering()


def test_both_json_forms(answering: Answering) -> None:
    answering.table.register(registration(), NOW_MS)
    for quote_keys, key in ((False, b"0"), (True, b'"0"')):
        assert answering.answers.topic("TopicA", None, quote_keys=quote_keys) == (
            b'{"brokerDatas":[{"brokerAddrs":{%s:"broker-a.0:10911"},"brokerName":"broker-a",'
            b'"cluster":"DefaultCluster","enableActingMaster":false}],"filterServerTable":{},'
            b'"queueDatas":[{"brokerName":"broker-a","perm":6,"readQueueNums":4,'
            b'"topicSysFlag":0,"writeQueueNums":4}]}' % key
        )


def test_a_kept_answer_is_forgotten_when_anything_changes(answering: Answering) -> None:
    table = answering.table
    assert answering.route() is None
    table.register(registration(), NOW_MS)
    first = answering.answers.topic("TopicA", None, quote_keys=True)
    assert answering.answers.topic("TopicA", None, quote_keys=True) is first
    table.register(registration(), NOW_MS + 30_000)
    assert answering.answers.topic("TopicA", None, quote_keys=True) is first, "nothing is new"
    table.register(registration("broker-b"), NOW_MS)
    assert set(answering.addresses()) == {"broker-a", "broker-b"}
    table.unregister(key_of("broker-a"), "broker-a")
    assert set(answering.addresses()) == {"broker-b"}


def test_what_is_kept_is_bounded(answering: Answering, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(route_answers, "KEPT_SIZE_MAX", 700)
    monkeypatch.setattr(route_answers, "CALLERS_KEPT_MAX", 1)
    answering.table.register(registration(), NOW_MS)
    for caller in (INSIDE, OUTSIDE, None):
        for topic in ("TopicA", "TopicB"):
            assert answering.route(topic, caller) is not None
            assert answering.answers._kept_size <= 700
            assert len(answering.answers._classes) == 1


async def test_the_order_topic_configuration_is_added_on_demand(answering: Answering) -> None:
    answering.table.register(registration(), NOW_MS)
    await answering.kv.put(ORDER_TOPIC_NAMESPACE, "TopicA", "broker-a:4")
    route = answering.route()
    assert route is not None
    assert route.order_topic_conf is None
    answering.config.order_message_enable = True
    for conf in ("broker-a:4", "broker-a:8"):
        await answering.kv.put(ORDER_TOPIC_NAMESPACE, "TopicA", conf)
        route = answering.route()
        assert route is not None
        assert route.order_topic_conf == conf


def test_the_lowest_slave_is_shown_as_master(answering: Answering) -> None:
    for broker_id in (0, 1, 2):
        answering.table.register(registration(broker_id=broker_id, acting_master=True), NOW_MS)
    answering.table.register(registration("broker-b", broker_id=1, acting_master=False), NOW_MS)
    answering.table.unregister(key_of("broker-a", 0), "broker-a")
    slaves = {1: address_of("broker-a", 1), 2: address_of("broker-a", 2)}
    assert answering.addresses()["broker-a"] == slaves
    answering.config.support_acting_master = True
    assert answering.addresses() == {
        "broker-a": {0: slaves[1], 2: slaves[2]},
        "broker-b": {1: address_of("broker-b", 1)},
    }
    answering.table.add_write_perm("broker-a")
    assert answering.addresses()["broker-a"] == slaves, "writable queues have a master"


def test_members_find_each_other_without_acting_masters(answering: Answering) -> None:
    topic = "rmq_sys_SYNC_BROKER_MEMBER_broker-a"
    answering.config.support_acting_master = True
    answering.table.register(
        registration("broker-a", topic, "TopicA", broker_id=1, acting_master=True), NOW_MS
    )
    assert answering.addresses(topic=topic)["broker-a"] == {1: address_of("broker-a", 1)}
    assert answering.addresses()["broker-a"] == {0: address_of("broker-a", 1)}


def test_a_zone_shows_its_brokers_and_those_without_a_master(answering: Answering) -> None:
    table = answering.table
    table.register(registration("near", zone="Z1"), NOW_MS)
    table.register(registration("far", zone="Z2"), NOW_MS)
    table.register(registration("nowhere"), NOW_MS)
    table.register(registration("orphan", zone="Z2", broker_id=1), NOW_MS)
    assert set(answering.addresses()) == {"near", "far", "nowhere", "orphan"}
    assert set(answering.addresses(zone="z1")) == {"near", "orphan"}
    assert set(answering.addresses()) == {"near", "far", "nowhere", "orphan"}


def test_addresses_depend_on_the_caller(answering: Answering) -> None:
    rules = json.dumps([{"addr": "inside:10911", "callers": ["172.30.76.0/24"]}])
    table, answers = answering.table, answering.answers
    table.register(registration(advertise=rules), NOW_MS)
    table.register(registration("broker-b"), NOW_MS)
    for caller, address in ((INSIDE, "inside:10911"), (OUTSIDE, address_of("broker-a"))):
        assert answering.addresses(caller=caller) == {
            "broker-a": {0: address},
            "broker-b": {0: address_of("broker-b")},
        }
        info = answers.cluster_info(caller)
        assert info.broker_addr_table["broker-a"].broker_addrs == {0: address}
        group = answers.member_group(CLUSTER, "broker-a", caller)
        assert group.broker_addrs == {0: address}
    stored = table.cluster_info().broker_addr_table["broker-a"].broker_addrs
    assert stored == {0: address_of("broker-a")}, "the table itself stays as registered"


def test_new_rules_are_seen_without_a_new_version(answering: Answering) -> None:
    answering.table.register(registration(), NOW_MS)
    assert answering.addresses(caller=INSIDE)["broker-a"] == {0: address_of("broker-a")}
    answering.table.register(registration(advertise='[{"addr": "new:1"}]'), NOW_MS)
    assert answering.addresses(caller=INSIDE)["broker-a"] == {0: "new:1"}


def test_static_topics_show_their_mappings(answering: Answering) -> None:
    mapping = TopicQueueMapping(
        topic="TopicA", bname="broker-a", total_queues=4, curr_id_map={0: 0, 1: 1}
    )
    answering.table.register(registration(mappings={"TopicA": mapping}), NOW_MS)
    route = answering.route()
    assert route is not None
    assert route.topic_queue_mapping_by_broker == {"broker-a": mapping}
