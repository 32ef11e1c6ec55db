from __future__ import annotations

import pytest

from pocketmq.protocol.bodies import Body
from pocketmq.protocol.bodies.routes import BrokerData, BrokerMemberGroup, ClusterInfo, TopicRoute

ROUTE = (
    b'{"brokerDatas":[{"brokerAddrs":{0:"127.0.0.1:10911",1:"127.0.0.1:11911"},'
    b'"brokerName":"broker-a","cluster":"DefaultCluster","enableActingMaster":false}],'
    b'"filterServerTable":{},"queueDatas":[{"brokerName":"broker-a","perm":6,"readQueueNums":4,'
    b'"topicSysFlag":0,"writeQueueNums":4}]}'
)
CLUSTERS = (
    b'{"brokerAddrTable":{"broker-a":{"brokerAddrs":{0:"127.0.0.1:10911",1:"127.0.0.1:11911"},'
    b'"brokerName":"broker-a","cluster":"DefaultCluster","enableActingMaster":false}},'
    b'"clusterAddrTable":{"DefaultCluster":["broker-a"]}}'
)
MEMBERS = (
    b'{"brokerMemberGroup":{"brokerAddrs":{0:"127.0.0.1:10911",1:"127.0.0.1:11911"},'
    b'"brokerName":"broker-a","cluster":"DefaultCluster"}}'
)


@pytest.mark.parametrize(
    ("cls", "data"), [(TopicRoute, ROUTE), (ClusterInfo, CLUSTERS), (BrokerMemberGroup, MEMBERS)]
)
def test_reads_and_writes_the_bytes_of_the_real_name_server(cls: type[Body], data: bytes) -> None:
    assert cls.decode(data).encode() == data


def test_standard_form_has_quoted_keys() -> None:
    quoted = ROUTE.replace(b'{0:"', b'{"0":"').replace(b',1:"', b',"1":"')
    assert TopicRoute.decode(ROUTE).encode(quote_keys=True) == quoted
    assert TopicRoute.decode(quoted) == TopicRoute.decode(ROUTE)


def test_order_configuration_is_optional() -> None:
    read = TopicRoute.decode(ROUTE[:-1] + b',"orderTopicConf":"broker-a:4"}')
    assert read.order_topic_conf == "broker-a:4"


def test_master_is_broker_0() -> None:
    assert BrokerData(broker_name="a", broker_addrs={1: "s", 0: "m"}).master_address == "m"
    assert BrokerData(broker_name="a", broker_addrs={1: "s"}).master_address is None
