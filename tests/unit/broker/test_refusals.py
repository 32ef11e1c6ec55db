from __future__ import annotations

import pytest

from pocketmq.broker.refusals import (
    queue_illegal,
    store_failure,
    topic_unknown_on_send,
    unavailable,
)
from pocketmq.broker.store.disk.errors import DiskFullError, WriteFailedError
from pocketmq.broker.store.writing.flusher import FlushTimeoutError
from pocketmq.protocol.bodies.topics import TopicConfig
from pocketmq.protocol.errors import OperatingError


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (FlushTimeoutError("too slow"), 10),
        (DiskFullError("no room"), 14),
        (WriteFailedError("the disk failed"), 14),
        (OperatingError("something else"), 1),
    ],
)
def test_what_the_store_says_has_a_code_and_its_words(error: OperatingError, code: int) -> None:
    found, remark = store_failure(error)
    assert found == code
    assert str(error) in remark


def test_refusals_begin_with_rocketmq_s_words_and_name_the_remedy() -> None:
    error = topic_unknown_on_send("T", "C")
    assert error.code == 17
    assert str(error.remark).startswith("topic[T] not exist, apply first please!")
    assert "cluster C and autoCreateTopicEnable is off: create it with" in str(error.remark)
    assert str(unavailable("why").remark).startswith("service not available now")


@pytest.mark.parametrize(("side", "nums"), [("read", 3), ("write", 2)])
def test_an_illegal_queue_is_told_the_count_of_its_side(side: str, nums: int) -> None:
    topic = TopicConfig(topic_name="T", read_queue_nums=3, write_queue_nums=2)
    error = queue_illegal(9, topic, side, "peer:1")
    assert error.code == 29
    assert f"queueId[9] is illegal, topic:[T] topicConfig.{side}QueueNums:[{nums}]" in str(
        error.remark
    )
