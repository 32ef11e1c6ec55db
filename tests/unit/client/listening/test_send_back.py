"""Failed messages on their way back: request 36, the ordinary message, and neither."""

from __future__ import annotations

import asyncio
import logging

import pytest
from support.peers.client import Cluster, Peer, code, done, hang_up, ok, silent
from support.peers.messages import record
from support.peers.transport import until

from pocketmq.client import ReceivedMessage
from pocketmq.client.listening.send_back import SendBack, error_text
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.records import decode_records
from pocketmq.protocol.requests.consuming import ConsumerSendMsgBackRequest
from pocketmq.protocol.requests.sending import SendMessageV2Request
from pocketmq.protocol.wire.command import Command
from pocketmq.transport.connection import Connection

BACK = RequestCode.CONSUMER_SEND_MSG_BACK
SEND = RequestCode.SEND_MESSAGE_V2


def message(offset: int = 3, *, times: int = 0) -> ReceivedMessage:
    """A message of topic T as a pull brings it."""
    properties = props.encode({props.UNIQ_KEY: f"U{offset}", props.TAGS: "tag", "colour": "red"})
    (made,) = decode_records(record(offset, b"body", properties=properties.encode()), "a")
    made.properties[props.MIN_OFFSET] = "0"
    made.reconsume_times = times
    return made


async def stage(cluster: Cluster, max_reconsume_times: int = -1) -> tuple[Peer, SendBack]:
    await cluster.add_namesrv()
    broker = await cluster.add_broker("a")
    cluster.topic("T", "a")
    cluster.topic("%RETRY%cg", "a", queues=1)
    client = cluster.client()
    await client.start()
    await done(client.routes.subscribe("T"))
    return broker, SendBack("cg", client, max_reconsume_times)


def sent(broker: Peer) -> SendMessageV2Request:
    return broker.last(SEND).read(SendMessageV2Request)


@pytest.mark.parametrize(("setting", "told"), [(-1, None), (0, 0), (3, 3)])
async def test_the_broker_is_asked_to_take_it_back(
    cluster: Cluster, setting: int, told: int | None
) -> None:
    broker, back = await stage(cluster, setting)
    broker.answers[BACK] = lambda request, connection: ok()
    assert await done(back.failed([message()], 5)) == []
    request = broker.last(BACK).read(ConsumerSendMsgBackRequest)
    assert request == ConsumerSendMsgBackRequest(
        offset=300,
        group="cg",
        delay_level=5,
        origin_msg_id="U3",
        origin_topic="T",
        max_reconsume_times=told,
        broker_name="a",
    )
    assert broker.count(SEND) == 0


@pytest.mark.parametrize(
    ("setting", "times", "level", "delay", "times_max"),
    [
        (16, 0, 0, "3", 16),
        (16, 4, 0, "7", 16),
        (2, 4, 2, "2", 2),
        (16, 1, -1, "4", 0),
        (-1, 1, -1, "4", 0),
        (-1, 1, 0, "4", None),
    ],
)
async def test_otherwise_it_is_sent_anew(
    cluster: Cluster, setting: int, times: int, level: int, delay: str, times_max: int | None
) -> None:
    broker, back = await stage(cluster, setting)
    broker.answers[BACK] = code(1, "look message by offset failed, 300")
    assert await done(back.failed([message(times=times)], level)) == []
    request = sent(broker)
    assert request.topic == "%RETRY%cg"
    assert (request.reconsume_times, request.max_reconsume_times) == (times + 1, times_max)
    assert broker.last(SEND).body == b"body"
    original = message()
    assert props.decode(request.properties or "") == {
        props.UNIQ_KEY: "U3",
        props.TAGS: "tag",
        "colour": "red",
        props.RETRY_TOPIC: "T",
        props.ORIGIN_MESSAGE_ID: original.offset_msg_id,
        props.RECONSUME_TIME: str(times + 1),
        props.DELAY: delay,
    } | ({} if times_max is None else {props.MAX_RECONSUME_TIMES: str(times_max)})


async def test_the_first_address_is_kept(cluster: Cluster) -> None:
    broker, back = await stage(cluster)
    broker.answers[BACK] = hang_up
    again = message()
    again.properties[props.ORIGIN_MESSAGE_ID] = "FIRST"
    assert await done(back.failed([again], 0)) == []
    properties = props.decode(sent(broker).properties or "")
    assert properties[props.ORIGIN_MESSAGE_ID] == "FIRST"
    assert again.properties[props.MIN_OFFSET] == "0"  # the listener's message is left alone


async def test_a_broker_that_does_not_answer_is_given_five_seconds(cluster: Cluster) -> None:
    broker, back = await stage(cluster)
    broker.answers[BACK] = silent
    task = asyncio.ensure_future(back.failed([message()], 0))
    await until(lambda: broker.count(BACK) == 1)
    await cluster.clock.advance(5)
    await until(task.done)
    assert task.result() == []
    assert broker.count(SEND) == 1


async def test_a_broker_that_is_gone(cluster: Cluster) -> None:
    broker, back = await stage(cluster)
    lost = message()
    lost.broker_name = "gone"
    assert await done(back.failed([lost], 0)) == []
    assert (broker.count(BACK), broker.count(SEND)) == (0, 1)


async def test_what_no_broker_takes_stays_here(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    broker, back = await stage(cluster)

    def only_the_first(request: Command, connection: Connection) -> Command:
        header = request.read(ConsumerSendMsgBackRequest)
        return ok() if header.offset == 100 else Command(14, remark="disk full")

    broker.answers[BACK] = only_the_first
    broker.answers[SEND] = code(14, "disk full")
    messages = [message(1), message(2)]
    with caplog.at_level(logging.WARNING):
        assert await done(back.failed(messages, 0)) == messages[1:]
    assert "U2" in caplog.text
    assert "U1" not in caplog.text


async def test_an_older_pocketmq_is_not_sent_anything_anew(cluster: Cluster) -> None:
    broker, back = await stage(cluster)
    messages = [message()]
    assert await done(back.failed(messages, 0)) == messages
    assert (broker.count(BACK), broker.count(SEND)) == (1, 0)


@pytest.mark.parametrize(
    ("error", "size_max", "text"),
    [
        (ValueError("no\tsuch\norder"), 200, "ValueError: no such order"),
        (ValueError("a\x01b\x02c"), 200, "ValueError: abc"),
        (KeyError("é" * 200), 12, "KeyError: '"),
        (ValueError("x"), 0, ""),
    ],
)
def test_an_error_is_kept_in_one_line_of_bounded_size(
    error: Exception, size_max: int, text: str
) -> None:
    assert error_text(error, size_max) == text


async def test_the_error_goes_along_both_ways(cluster: Cluster) -> None:
    broker, back = await stage(cluster)
    back._error_size_max = 200
    broker.answers[BACK] = code(1)
    await done(back.failed([message()], 0, ValueError("poison")))
    request = broker.last(BACK).read(ConsumerSendMsgBackRequest)
    assert request.last_error == "ValueError: poison"
    properties = props.decode(sent(broker).properties or "")
    assert properties[props.LAST_ERROR] == "ValueError: poison"
