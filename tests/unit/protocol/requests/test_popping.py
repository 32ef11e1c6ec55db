"""Requests about popped messages."""

from __future__ import annotations

from pocketmq.protocol.requests.popping import (
    ALL_QUEUES,
    INIT_MAX,
    AckMessageRequest,
    ChangeInvisibleTimeRequest,
    NotificationResponse,
    PopMessageRequest,
    PopMessageResponse,
)
from pocketmq.protocol.wire.command import Command


def test_fields_have_rocketmqs_names() -> None:
    pop = PopMessageRequest(
        consumer_group="g", topic="t", queue_id=ALL_QUEUES, max_msg_nums=32, invisible_time=60_000,
        poll_time=15_000, born_time=1, init_mode=INIT_MAX, exp_type="TAG", exp="*", order=False,
        attempt_id="a",
    )  # fmt: skip
    assert Command(pop.code, header=pop).fields.keys() == {
        "consumerGroup", "topic", "queueId", "maxMsgNums", "invisibleTime", "pollTime", "bornTime",
        "initMode", "expType", "exp", "order", "attemptId",
    }  # fmt: skip
    ack = AckMessageRequest(consumer_group="g", topic="t", queue_id=0, extra_info="x", offset=1)
    assert Command(ack.code, header=ack).fields["extraInfo"] == "x"
    change = ChangeInvisibleTimeRequest(
        consumer_group="g", topic="t", queue_id=0, extra_info="x", offset=1, invisible_time=5,
        suspend=True,
    )  # fmt: skip
    assert Command(change.code, header=change).fields.keys() >= {"invisibleTime", "suspend"}


def test_answers_are_read_as_rocketmq_writes_them() -> None:
    fields = {
        "popTime": "1795368801837", "invisibleTime": "10000", "reviveQid": "0", "restNum": "3",
        "startOffsetInfo": "0 0 0", "msgOffsetInfo": "0 0 0",
    }  # fmt: skip
    answer = Command(0)
    answer.raw = fields
    read = answer.read(PopMessageResponse)
    assert (read.pop_time, read.rest_num, read.order_count_info) == (1795368801837, 3, None)
    answer = Command(0)
    answer.raw = {"hasMsg": "true", "pollingFull": "false"}
    assert answer.read(NotificationResponse) == NotificationResponse(
        has_msg=True, polling_full=False
    )
