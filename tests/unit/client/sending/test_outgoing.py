"""What becomes of messages before they are sent."""

from __future__ import annotations

import zlib
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.client import BatchContentError, Message
from pocketmq.client.instance.identity import UniqueKeys
from pocketmq.client.sending.outgoing import Packer
from pocketmq.client.settings import InstanceSettings, ProducerSettings
from pocketmq.protocol import flags
from pocketmq.protocol.errors import IllegalNameError, MessageSizeError, UsageError
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.batch import BatchEntry, decode_batch
from pocketmq.protocol.messages.records import RECORD_SIZE_MIN
from pocketmq.testing.clock import VirtualClock


def packer(clock: VirtualClock | None = None, **settings: Any) -> Packer:
    clock = clock or VirtualClock()
    keys = UniqueKeys(clock.now_ms, Random(1))
    return Packer("pg", clock, keys, ProducerSettings(**settings), InstanceSettings())


def test_the_header_of_a_message(clock: VirtualClock) -> None:
    message = Message("T", b"body", tags="A", keys=["k1", "k2"], flag=9)
    outgoing = packer(clock).pack(message)
    header = outgoing.header
    assert (header.producer_group, header.topic, header.flag) == ("pg", "T", 9)
    assert (header.default_topic, header.default_topic_queue_nums) == ("TBW102", 4)
    assert header.born_timestamp == clock.now_ms()
    assert header.sys_flag == 0
    sent = props.decode(header.properties or "")
    assert sent == {"TAGS": "A", "KEYS": "k1 k2", "WAIT": "true", "UNIQ_KEY": outgoing.msg_id}
    assert outgoing.body == b"body"


def test_a_message_keeps_its_id() -> None:
    message, make = Message("T", b"x"), packer()
    assert make.pack(message).msg_id == make.pack(message).msg_id == message.unique_key


def test_every_message_gets_an_id_of_its_own() -> None:
    make = packer()
    assert len({make.pack(Message("T", b"x")).msg_id for _ in range(1000)}) == 1000


@pytest.mark.parametrize("size", [4095, 4096, 100_000])
def test_large_bodies_are_compressed(size: int) -> None:
    body = b"a" * size
    message = Message("T", body)
    outgoing = packer().pack(message)
    if size < 4096:
        assert (outgoing.body, outgoing.header.sys_flag) == (body, 0)
    else:
        assert zlib.decompress(outgoing.body) == body
        assert outgoing.header.sys_flag == flags.COMPRESSED | flags.COMPRESSION_ZLIB
    assert message.body == body


def test_what_does_not_shrink_is_sent_as_it_is() -> None:
    body = Random(3).randbytes(5000)
    outgoing = packer().pack(Message("T", body))
    assert (outgoing.body, outgoing.header.sys_flag) == (body, 0)


@pytest.mark.parametrize("topic", ["", "a b", "x" * 128, "ü"])
def test_topic_names_are_checked(topic: str) -> None:
    with pytest.raises(IllegalNameError):
        packer().pack(Message(topic, b"x"))


def test_sizes_are_checked() -> None:
    packer(max_message_size=10).pack(Message("T", b"x" * 10))
    with pytest.raises(MessageSizeError):
        packer(max_message_size=10).pack(Message("T", b"x" * 11))
    for wrong in (None, 5, [1], {"a": 1}):
        message = Message("T", wrong)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="give bytes"):
            packer().pack(message)
    with pytest.raises(UsageError, match="no body"):
        packer().pack(Message("T"))
    with pytest.raises(MessageSizeError):
        packer().pack(Message("T", b"x", properties={"p": "y" * 32_768}))
    with pytest.raises(MessageSizeError):
        packer().pack(Message("T", b"x", properties={"p": "ä" * 20_000}))
    with pytest.raises(UsageError):
        packer().pack(Message("T", b"x", properties={"p": "\x01"}))


@given(
    sizes=st.lists(st.integers(1, 900), min_size=1, max_size=40),
    size_max=st.integers(1200, 3000),
)
def test_batches_are_split_by_size(sizes: list[int], size_max: int) -> None:
    messages = [Message("T", b"x" * size) for size in sizes]
    parts = list(packer(max_message_size=size_max).pack_batches(messages))
    entries = [[BatchEntry(*e) for e in decode_batch(part.body)] for part in parts]
    assert [len(e.body) for part in entries for e in part] == sizes
    assert [len(part) for part in entries] == [part.count for part in parts]
    ids = [i for part in parts for i in part.msg_id.split(",")]
    assert ids == [m.unique_key for m in messages]
    for part, following in zip(entries, [*entries[1:], None], strict=True):
        stored = [RECORD_SIZE_MIN + 25 + len(e.body) + len(e.properties) for e in part]
        assert sum(stored) <= size_max
        if following:  # as few as possible: the next entry would not have fitted
            first = following[0]
            extra = RECORD_SIZE_MIN + 25 + len(first.body) + len(first.properties)
            assert sum(stored) + extra > size_max


def test_the_header_of_a_batch() -> None:
    (part,) = packer().pack_batches([Message("T", b"x", wait_store_ok=False)] * 3)
    assert part.header.batch is True
    assert props.decode(part.header.properties or "") == {"WAIT": "false"}
    assert part.count == 3


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [Message("T", b"x"), Message("U", b"x")],
        [Message("T", b"x"), Message("T", b"x", wait_store_ok=False)],
        [Message("T", b"x", delay_level=3)],
        [Message("T", b"x", properties={"TIMER_DELAY_SEC": "1"})],
        [Message("%RETRY%g", b"x")],
    ],
)
def test_messages_that_cannot_travel_together(messages: list[Message]) -> None:
    with pytest.raises(BatchContentError):
        packer().pack_batches(messages)


def test_one_bad_message_stops_the_whole_batch_before_anything_is_sent() -> None:
    messages = [Message("T", b"x" * 50), Message("T", b"x" * 101)]
    with pytest.raises(MessageSizeError):
        packer(max_message_size=100).pack_batches(messages)
