from __future__ import annotations

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.protocol.bodies.test_topics import REGISTRATION, VERSION, WRAPPER

from pocketmq.protocol.bodies.registrations import read_registration, read_topic_config
from pocketmq.protocol.bodies.topics import DataVersion, RegisterBrokerBody, TopicConfig
from pocketmq.protocol.errors import ContentError

# Inflated; as the real name server reads it.
PARTS = (
    struct.pack(">i", len(VERSION)) + VERSION
    + bytes.fromhex("00000001 00000015") + b"T 4 4 6 SINGLE_TAG {}"
    + bytes.fromhex("00000002") + b"[]" + bytes(4)
)  # fmt: skip
COMPRESSED = zlib.compress(PARTS)
CONFIG = TopicConfig(topic_name="T", read_queue_nums=4, write_queue_nums=4)


@pytest.mark.parametrize(
    ("body", "compressed", "version"),
    [(REGISTRATION, False, 513), (WRAPPER, False, 36), (COMPRESSED, True, 513)],
)
def test_reads_every_form(body: bytes, compressed: bool, version: int) -> None:
    read = read_registration(body, compressed=compressed, version=version)
    wrapper = read.topic_config_serialize_wrapper
    assert wrapper.topic_config_table == {"T": CONFIG}
    assert wrapper.data_version == DataVersion(counter=3, timestamp=1_700_000_000_000)
    assert read.filter_server_list == []


def test_brokers_before_version_5_write_no_mappings() -> None:
    body = zlib.compress(PARTS[:-4])
    read = read_registration(body, compressed=True, version=401)
    assert read.topic_config_serialize_wrapper.topic_config_table == {"T": CONFIG}
    with pytest.raises(ContentError, match="ends too early"):
        read_registration(body, compressed=True, version=513)


def test_no_body_means_no_topics() -> None:
    assert read_registration(b"", compressed=False, version=513) == RegisterBrokerBody()


@given(st.integers(0, len(PARTS) - 1))
def test_every_cut_is_found(size: int) -> None:
    with pytest.raises(ContentError):
        read_registration(zlib.compress(PARTS[:size]), compressed=True, version=513)


@given(st.binary(max_size=100))
def test_garbage_is_refused(garbage: bytes) -> None:
    for body in (garbage or b"x", zlib.compress(garbage)):
        with pytest.raises(ContentError):
            read_registration(body, compressed=True, version=513)


@pytest.mark.parametrize(
    "text", ["", "T 4 4 6", "T four 4 6 SINGLE_TAG {}", "T 4 4 6 X {", "T 4 4 6 X 7"]
)
def test_settings_that_cannot_be_read_are_named(text: str) -> None:
    with pytest.raises(ContentError):
        read_topic_config(text)


def test_attributes_of_a_topic() -> None:
    config = read_topic_config('T 1 2 4 SINGLE_TAG {"message.type":"FIFO"}')
    assert config.attributes == {"message.type": "FIFO"}
    assert (config.read_queue_nums, config.write_queue_nums, config.perm) == (1, 2, 4)
