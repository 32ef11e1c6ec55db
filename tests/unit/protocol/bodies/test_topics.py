from __future__ import annotations

import pytest

from pocketmq.protocol.bodies import Body
from pocketmq.protocol.bodies.topics import (
    ConsumeStats,
    DataVersion,
    KVTable,
    QueueKey,
    RegisterBrokerBody,
    TopicConfig,
    TopicConfigTable,
    TopicList,
    TopicOffset,
    TopicStatsTable,
)

VERSION = b'{"counter":3,"stateVersion":0,"timestamp":1700000000000}'
CONFIG = (
    b'{"attributes":{},"order":false,"perm":6,"readQueueNums":4,"topicFilterType":"SINGLE_TAG",'
    b'"topicName":"T","topicSysFlag":0,"writeQueueNums":4}'
)
WRAPPER = (
    b'{"dataVersion":%b,"mappingDataVersion":%b,"topicConfigTable":{"T":%b},'
    b'"topicQueueMappingDetailMap":{},"topicQueueMappingInfoMap":{}}'
) % (VERSION, VERSION, CONFIG)
REGISTRATION = b'{"filterServerList":[],"topicConfigSerializeWrapper":%b}' % WRAPPER
QUEUE = b'{"brokerName":"broker-a","queueId":0,"topic":"T"}'
STATS = (
    b'{"offsetTable":{%b:{"lastUpdateTimestamp":1700000000000,"maxOffset":9,"minOffset":0}},'
    b'"topicPutTps":0.0}'
) % QUEUE
CONSUME_STATS = (
    b'{"consumeTps":1.5,"offsetTable":{%b:{"brokerOffset":9,"consumerOffset":5,'
    b'"lastTimestamp":1700000000000,"pullOffset":7}}}'
) % QUEUE


@pytest.mark.parametrize(
    ("cls", "data"),
    [
        (TopicConfig, CONFIG),
        (TopicConfigTable, WRAPPER),
        (RegisterBrokerBody, REGISTRATION),
        (TopicStatsTable, STATS),
        (ConsumeStats, CONSUME_STATS),
        (TopicList, b'{"topicList":["T"]}'),
        (KVTable, b'{"table":{"T":"broker-a:4"}}'),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_reads_and_writes_the_bytes_of_the_real_servers(cls: type[Body], data: bytes) -> None:
    assert cls.decode(data).encode() == data


def test_tables_are_keyed_by_queue() -> None:
    key = QueueKey(broker_name="broker-a", queue_id=0, topic="T")
    offset = TopicOffset(min_offset=0, max_offset=9, last_update_timestamp=1_700_000_000_000)
    assert TopicStatsTable.decode(STATS).offset_table == {key: offset}


def test_tables_are_read_from_older_servers_too() -> None:
    """fastjson 1 peers write an object key as the text of its JSON."""
    quoted = STATS.replace(QUEUE + b":", b'"' + QUEUE.replace(b'"', b'\\"') + b'":')
    assert TopicStatsTable.decode(quoted) == TopicStatsTable.decode(STATS)


def test_the_next_version_differs() -> None:
    version = DataVersion(counter=3, timestamp=5)
    assert version.next(9) == DataVersion(counter=4, timestamp=9)
    assert version != version.next(5)


def test_tables_of_a_fresh_body_are_its_own() -> None:
    TopicConfigTable().topic_config_table["T"] = TopicConfig(topic_name="T")
    assert TopicConfigTable().topic_config_table == {}


def test_largest_queue_count() -> None:
    assert TopicConfig(topic_name="T", read_queue_nums=8, write_queue_nums=4).queue_nums_max == 8
