from __future__ import annotations

import contextlib
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.protocol.bodies.registrations import (
    TOPICS_PER_STEP,
    RegisteredTopic,
    RegisteredTopics,
    read_registration,
    read_topic,
    registration_steps,
)
from pocketmq.protocol.bodies.topics import (
    DataVersion,
    RegisterBrokerBody,
    TopicConfig,
    TopicConfigTable,
    TopicQueueMapping,
)
from pocketmq.protocol.codes import Version
from pocketmq.protocol.errors import ContentError

VERSION_JSON = b'{"counter":3,"stateVersion":0,"timestamp":1700000000000}'
MAPPING_JSON = b'{"bname":"broker-a","currIdMap":{0:0},"epoch":5,"topic":"T","totalQueues":4}'
TABLE = TopicConfigTable(
    data_version=DataVersion(counter=3, timestamp=1_700_000_000_000),
    topic_config_table={"T": TopicConfig(topic_name="T", read_queue_nums=4, write_queue_nums=4)},
)
READ = RegisteredTopics(
    version=TABLE.data_version,
    topics=[RegisteredTopic(topic_name="T", read_queue_nums=4, write_queue_nums=4)],
)


def part(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def inflated(
    *, mappings: bytes | None = b"\0\0\0\0", topic: bytes = b"T 4 4 6 SINGLE_TAG {}"
) -> bytes:
    counted = struct.pack(">i", 1) + part(topic)
    return part(VERSION_JSON) + counted + part(b'["fs:1"]') + (mappings or b"")


def read_compressed(data: bytes, version: int = Version.V5_5_0) -> RegisteredTopics:
    return read_registration(zlib.compress(data), compressed=True, version=version)


def test_the_usual_form_is_json() -> None:
    body = RegisterBrokerBody(topic_config_serialize_wrapper=TABLE, filter_server_list=["fs:1"])
    assert read_registration(body.encode(), compressed=False, version=Version.V5_5_0) == READ


def test_a_mapping_with_bare_integer_keys_is_read() -> None:
    body = (
        b'{"topicConfigSerializeWrapper":{"dataVersion":%s,"topicConfigTable":{},'
        b'"topicQueueMappingInfoMap":{"T":%s}}}' % (VERSION_JSON, MAPPING_JSON)
    )
    read = read_registration(body, compressed=False, version=Version.V5_5_0)
    assert read.mappings == {
        "T": TopicQueueMapping(
            topic="T", bname="broker-a", epoch=5, total_queues=4, curr_id_map={0: 0}
        )
    }
    with pytest.raises(ContentError, match="standard JSON"):
        in_steps(body)


def test_no_body_means_no_topics() -> None:
    assert read_registration(b"", compressed=False, version=Version.V5_5_0) == RegisteredTopics()


def test_old_brokers_send_topics_only() -> None:
    old = Version.V3_0_11 - 1
    assert read_registration(TABLE.encode(), compressed=False, version=old) == READ
    assert in_steps(TABLE.encode(), version=old) == (0, READ)


def test_the_compressed_form() -> None:
    assert read_compressed(inflated()) == READ


def test_the_compressed_form_has_mappings_from_5_0_on() -> None:
    data = inflated(mappings=struct.pack(">i", 1) + part(MAPPING_JSON))
    assert read_compressed(data).mappings["T"].curr_id_map == {0: 0}
    assert read_compressed(inflated(mappings=None), version=Version.V4_9_4) == READ


def in_steps(
    body: bytes, *, compressed: bool = False, version: int = Version.V5_5_0
) -> tuple[int, RegisteredTopics]:
    """How many pauses there were, and what was read."""
    steps, pauses = registration_steps(body, compressed=compressed, version=version), 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return pauses, end.value
        pauses += 1


@pytest.mark.parametrize("compressed", [False, True])
def test_a_large_body_is_read_in_steps(compressed: bool) -> None:
    names = [f"T{n}" for n in range(3 * TOPICS_PER_STEP)]
    body = RegisterBrokerBody(
        topic_config_serialize_wrapper=TopicConfigTable(
            topic_config_table={name: TopicConfig(topic_name=name) for name in names}
        )
    ).encode()
    if compressed:
        texts = [part(f"{name} 16 16 6 SINGLE_TAG {{}}".encode()) for name in sorted(names)]
        counted = struct.pack(">i", len(names)) + b"".join(texts)
        body = zlib.compress(part(b"{}") + counted + part(b"[]") + bytes(4))
    pauses, read = in_steps(body, compressed=compressed)
    assert pauses == 3
    assert read == read_registration(body, compressed=compressed, version=Version.V5_5_0)
    assert [topic.topic_name for topic in read.topics] == sorted(names)


def test_what_a_route_does_not_need_is_not_read() -> None:
    body = (
        b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":{"topicName":"T","order":null}}}}'
    )
    read = read_registration(body, compressed=False, version=Version.V5_5_0)
    assert read.topics == [RegisteredTopic(topic_name="T")]


def test_topic_settings_as_a_string() -> None:
    read = read_topic('T 8 4 7 MULTI_TAG {"message.type":"FIFO","note":"a b"}')
    expected = RegisteredTopic(topic_name="T", read_queue_nums=8, write_queue_nums=4, perm=7)
    assert read == read_topic("T 8 4 7 SINGLE_TAG") == expected


@pytest.mark.parametrize("text", ["", "T 4 4 6", "T x 4 6 SINGLE_TAG"])
def test_unreadable_topic_settings(text: str) -> None:
    with pytest.raises(ContentError, match="topic settings"):
        read_topic(text)


@pytest.mark.parametrize(
    "data",
    [
        inflated(mappings=None),
        inflated()[:10],
        part(b"{}") + struct.pack(">i", -1),
        part(b"{}") + struct.pack(">ii", 1, 99),
        part(b"{}") + struct.pack(">i", 1) + part(b"\xff\xff"),
        part(b"nonsense"),
    ],
)
def test_damaged_compressed_bodies_are_refused(data: bytes) -> None:
    with pytest.raises(ContentError):
        read_compressed(data)


@given(st.binary(), st.booleans(), st.sampled_from([0, Version.V4_9_4, Version.V5_5_0]))
def test_no_bytes_do_more_than_to_be_refused(data: bytes, deflate: bool, version: int) -> None:
    body = zlib.compress(data) if deflate else data
    with contextlib.suppress(ContentError):
        read_registration(body, compressed=deflate, version=version)
    with contextlib.suppress(ContentError):
        _, read = in_steps(body, compressed=deflate, version=version)
        assert read == read_registration(body, compressed=deflate, version=version)
