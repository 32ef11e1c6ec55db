from __future__ import annotations

import pytest

from pocketmq.protocol.bodies.clients import Subscription
from pocketmq.protocol.bodies.groups import (
    ConsumerOffsetTable,
    ConsumerStatus,
    ConsumeStatus,
    ProcessQueueInfo,
    QueueTimeSpan,
    ResetOffsets,
    RunningInfo,
)
from pocketmq.protocol.bodies.topics import QueueKey
from pocketmq.protocol.errors import ContentError

KEY = QueueKey("broker-a", 2, "T")
KEY_TEXT = b'{"brokerName":"broker-a","queueId":2,"topic":"T"}'


def test_reset_offsets_have_queues_as_keys() -> None:
    body = ResetOffsets(offset_table={KEY: 7})
    assert body.encode() == b'{"offsetTable":{' + KEY_TEXT + b":7}}"
    assert ResetOffsets.decode(body.encode()) == body
    assert ResetOffsets.decode(b"{}").offset_table == {}


def test_for_c_the_reset_offsets_are_a_list() -> None:
    body = ResetOffsets.decode(
        b'{"offsetTable":[{"brokerName":"broker-a","queueId":2,"topic":"T","offset":7}]}'
    )
    assert body.offset_table == {KEY: 7}


@pytest.mark.parametrize("text", [b"", b"[]", b'{"offsetTable":{"x":1}}', b'{"offsetTable":3}'])
def test_what_is_no_table_is_refused(text: bytes) -> None:
    with pytest.raises(ContentError):
        ResetOffsets.decode(text)


def test_the_status_of_one_consumer_and_of_many() -> None:
    for body in (
        ConsumerStatus(message_queue_table={KEY: 3}),
        ConsumerStatus(consumer_table={"client": {KEY: 3}, "idle": {}}),
    ):
        assert ConsumerStatus.decode(body.encode()) == body


def test_running_info_is_read_as_it_is_written() -> None:
    body = RunningInfo(
        properties={"PROP_CONSUME_TYPE": "CONSUME_PASSIVELY"},
        subscription_set=[Subscription.of_tags("T", "A", 1)],
        mq_table={KEY: ProcessQueueInfo(commit_offset=5, cached_msg_size_in_mib=1)},
        status_table={"T": ConsumeStatus(pull_rt=1.5, consume_ok_tps=2.5)},
        jstack="...",
    )
    assert RunningInfo.decode(body.encode()) == body
    text = body.encode()
    for name in (b'"cachedMsgSizeInMiB":1', b'"pullRT":1.5', b'"consumeOKTPS":2.5', b'"droped":'):
        assert name in text
    assert b"userConsumerInfo" in text


def test_running_info_of_apache_s_client_is_read() -> None:
    text = (
        b'{"jstack":null,"mqPopTable":{},"mqTable":{{"brokerName":"b","queueId":0,"topic":"T"}:'
        b'{"cachedMsgCount":0,"cachedMsgMaxOffset":0,"cachedMsgMinOffset":0,"cachedMsgSizeInMiB":0,'
        b'"commitOffset":12,"droped":false,"lastConsumeTimestamp":1,"lastLockTimestamp":1,'
        b'"lastPullTimestamp":1,"locked":false,"transactionMsgCount":0,"transactionMsgMaxOffset":0,'
        b'"transactionMsgMinOffset":0,"tryUnlockTimes":0}},"properties":{"PROP_CONSUMEORDERLY":'
        b'"false"},"statusTable":{"T":{"consumeFailedMsgs":0,"consumeFailedTPS":0.0,"consumeOKTPS":'
        b'0.0,"consumeRT":0.0,"pullRT":0.0,"pullTPS":0.0}},"subscriptionSet":[],'
        b'"userConsumerInfo":{}}'
    )
    info = RunningInfo.decode(text)
    assert info.mq_table[QueueKey("b", 0, "T")].commit_offset == 12
    assert info.properties == {"PROP_CONSUMEORDERLY": "false"}


def test_a_table_of_offsets_has_numbers_as_keys() -> None:
    body = ConsumerOffsetTable(offset_table={"T@g": {0: 5, 1: 7}})
    assert b'"offsetTable":{"T@g":{0:5,1:7}}' in body.encode()
    assert ConsumerOffsetTable.decode(body.encode()) == body


def test_a_time_span_names_its_queue() -> None:
    assert b'"messageQueue":' + KEY_TEXT in QueueTimeSpan(message_queue=KEY).encode()
