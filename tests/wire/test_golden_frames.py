"""Every recorded frame of Apache's client and servers is read, and written again as it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from wire.record_golden import CASES

from pocketmq.protocol.bodies import Body
from pocketmq.protocol.bodies.clients import ConsumerConnection, ConsumerIdList, Heartbeat
from pocketmq.protocol.bodies.groups import (
    ConsumeDirectlyResult,
    ConsumerStatus,
    ResetOffsets,
    RunningInfo,
)
from pocketmq.protocol.bodies.locks import LockBatchBody, LockBatchResult
from pocketmq.protocol.bodies.queries import ConsumeQueueEntries
from pocketmq.protocol.bodies.routes import ClusterInfo, TopicRoute
from pocketmq.protocol.bodies.topics import RegisterBrokerBody, TopicConfig, TopicStatsTable
from pocketmq.protocol.codes import LANGUAGES_BY_NAME, RequestCode
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.batch import decode_batch, encode_batch
from pocketmq.protocol.messages.hosts import encode_host, split_address
from pocketmq.protocol.messages.ids import parse_offset_msg_id
from pocketmq.protocol.messages.records import check_record, decode_records, encode_record
from pocketmq.protocol.requests import (
    clients,
    consuming,
    groups,
    nameserver,
    offsets,
    pulling,
    queries,
    sending,
    topics,
    transactions,
)
from pocketmq.protocol.wire import frames
from pocketmq.protocol.wire.command import Command
from pocketmq.protocol.wire.header import Header, RequestHeader, text_fields

FRAMES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "golden" / "frames.json").read_text(encoding="utf-8")
)
CODECS = {"JSON": 0, "ROCKETMQ": 1}
SUCCESS = 0

REQUESTS: dict[int, type[RequestHeader]] = {
    cls.code: cls
    for family in (
        clients,
        consuming,
        groups,
        nameserver,
        offsets,
        pulling,
        queries,
        sending,
        topics,
        transactions,
    )
    for cls in vars(family).values()
    if isinstance(cls, type) and issubclass(cls, RequestHeader) and cls is not RequestHeader
}
ANSWERS: dict[int, type[Header]] = {
    RequestCode.REGISTER_BROKER: nameserver.RegisterBrokerResponse,
    RequestCode.SEND_MESSAGE_V2: sending.SendMessageResponse,
    RequestCode.SEND_BATCH_MESSAGE: sending.SendMessageResponse,
    RequestCode.PULL_MESSAGE: pulling.PullMessageResponse,
    RequestCode.LITE_PULL_MESSAGE: pulling.PullMessageResponse,
    RequestCode.QUERY_CONSUMER_OFFSET: offsets.OffsetResponse,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: offsets.OffsetResponse,
    RequestCode.GET_MAX_OFFSET: offsets.OffsetResponse,
    RequestCode.GET_MIN_OFFSET: offsets.OffsetResponse,
    RequestCode.GET_EARLIEST_MSG_STORETIME: offsets.TimestampResponse,
    RequestCode.HEART_BEAT: clients.HeartbeatResponse,
    RequestCode.QUERY_MESSAGE: queries.QueryMessageResponse,
    RequestCode.SEND_MESSAGE: sending.SendMessageResponse,
    RequestCode.SEND_REPLY_MESSAGE: sending.SendMessageResponse,
    RequestCode.SEND_REPLY_MESSAGE_V2: sending.SendMessageResponse,
    RequestCode.RECALL_MESSAGE: sending.RecallMessageResponse,
}
BODIES: dict[tuple[int, str], type[Body]] = {
    (RequestCode.REGISTER_BROKER, "request"): RegisterBrokerBody,
    (RequestCode.GET_ROUTEINFO_BY_TOPIC, "response"): TopicRoute,
    (RequestCode.GET_BROKER_CLUSTER_INFO, "response"): ClusterInfo,
    (RequestCode.HEART_BEAT, "request"): Heartbeat,
    (RequestCode.GET_CONSUMER_LIST_BY_GROUP, "response"): ConsumerIdList,
    (RequestCode.GET_TOPIC_STATS_INFO, "response"): TopicStatsTable,
    (RequestCode.GET_TOPIC_CONFIG, "response"): TopicConfig,
    (RequestCode.LOCK_BATCH_MQ, "request"): LockBatchBody,
    (RequestCode.LOCK_BATCH_MQ, "response"): LockBatchResult,
    (RequestCode.UNLOCK_BATCH_MQ, "request"): LockBatchBody,
    (RequestCode.QUERY_CONSUME_QUEUE, "response"): ConsumeQueueEntries,
    (RequestCode.GET_CONSUMER_CONNECTION_LIST, "response"): ConsumerConnection,
    (RequestCode.RESET_CONSUMER_CLIENT_OFFSET, "request"): ResetOffsets,
    (RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, "response"): ResetOffsets,
    (RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, "response"): ConsumerStatus,
    (RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, "response"): ConsumerStatus,
    (RequestCode.GET_CONSUMER_RUNNING_INFO, "response"): RunningInfo,
    (RequestCode.CONSUME_MESSAGE_DIRECTLY, "response"): ConsumeDirectlyResult,
}
STORED = {
    RequestCode.PULL_MESSAGE,
    RequestCode.LITE_PULL_MESSAGE,
    RequestCode.VIEW_MESSAGE_BY_ID,
    RequestCode.QUERY_MESSAGE,
}
"""Answered with stored messages."""

NO_POP = b'"mqPopTable":{},'
"""Of running consumers: nothing here consumes by POP."""

NO_REFLECTION = {"ReqT", "bname", "lo", "ns", "nsd", "oway"}
"""Fields that the Java client adds to every request of a kind; no handler of ours asks for them."""


def read(frame: dict[str, Any]) -> Command:
    parser = frames.FrameParser()
    parser.feed(bytes.fromhex(frame["hex"]))
    command = parser.next_command()
    assert command is not None
    assert parser.next_command() is None
    return command


def chosen(*codes: int, direction: str) -> list[Any]:
    return [
        pytest.param(frame, id=frame["name"])
        for frame in FRAMES
        if frame["request_code"] in codes
        and frame["direction"] == direction
        and frame["body_size"] > 0
    ]


def with_bodies(direction: str) -> list[Any]:
    return chosen(*(code for code, way in BODIES if way == direction), direction=direction)


def fields_as_read(frame: dict[str, Any]) -> dict[str, str]:
    fields: dict[str, str] = frame["header"]["extFields"] or {}
    if frame["codec"] == "ROCKETMQ":  # where an empty value is an absent one
        return {k: v for k, v in fields.items() if v}
    return fields


every_frame = pytest.mark.parametrize("frame", FRAMES, ids=lambda frame: str(frame["name"]))


@every_frame
def test_reads_as_the_independent_decoder_does(frame: dict[str, Any]) -> None:
    command, header = read(frame), frame["header"]
    assert command.codec == CODECS[frame["codec"]]
    assert (command.code, command.opaque, command.flag) == (
        header["code"],
        header["opaque"],
        header["flag"],
    )
    assert (command.version, command.remark) == (header["version"], header["remark"])
    assert command.language == LANGUAGES_BY_NAME[header["language"]]
    assert command.is_response is (frame["direction"] == "response")
    assert len(command.body) == frame["body_size"]
    assert command.fields == fields_as_read(frame)


@every_frame
def test_writes_the_same_bytes_up_to_the_order_of_fields(frame: dict[str, Any]) -> None:
    """Java writes fields in the order of a hash table, this project sorted by name."""
    raw, command = bytes.fromhex(frame["hex"]), read(frame)
    fields = frame["header"]["extFields"] or {}
    if fields != fields_as_read(frame):
        return
    again = frames.encode(command)
    if list(fields) == sorted(fields):
        assert again == raw
    else:
        assert len(again) == len(raw)
        assert sorted(again) == sorted(raw)
        assert [*read({"hex": again.hex()}).fields] == sorted(fields)


@every_frame
def test_typed_headers_hold_all_that_was_sent(frame: dict[str, Any]) -> None:
    command = read(frame)
    if frame["direction"] == "request":
        cls: type[Header] = REQUESTS[command.code]
    elif command.fields and not frame["name"].endswith("_refused/response"):
        cls = ANSWERS[frame["request_code"]]
    else:
        return
    header = command.read(cls)
    expected = {k: v for k, v in fields_as_read(frame).items() if k not in NO_REFLECTION}
    # A default of ours may stand where nothing was sent.
    assert text_fields(header).items() >= expected.items()


@pytest.mark.parametrize("frame", with_bodies("request"))
def test_bodies_of_requests_are_written_again(frame: dict[str, Any]) -> None:
    check_body(frame)


@pytest.mark.parametrize("frame", with_bodies("response"))
def test_bodies_of_answers_are_written_again(frame: dict[str, Any]) -> None:
    check_body(frame)


def check_body(frame: dict[str, Any]) -> None:
    cls = BODIES[frame["request_code"], frame["direction"]]
    data = read(frame).body.replace(NO_POP, b"")
    body = cls.decode(data)
    again = body.encode(quote_keys=b'{"0":' in data)
    assert cls.decode(again) == body
    assert len(again) == len(data)  # sorted tables where Java has the order of a hash table
    assert sorted(again) == sorted(data)


@pytest.mark.parametrize(
    "frame",
    [
        *chosen(*STORED, direction="response"),
        *chosen(RequestCode.CONSUME_MESSAGE_DIRECTLY, direction="request"),
    ],
)
def test_stored_messages_are_written_again(frame: dict[str, Any]) -> None:
    data, position = read(frame).body, 0
    for m in decode_records(data, "broker-a", inflate=False):
        size = check_record(data, position, len(data))
        record = data[position : position + size]
        assert size == m.store_size
        assert parse_offset_msg_id(m.offset_msg_id) == (m.store_host, m.physical_offset)
        assert m.topic in ("GoldenTopic", "Golden-queries", "Golden-calls")
        assert m.unique_key
        assert record == encode_record(
            topic=m.topic.encode(),
            queue_id=m.queue_id,
            flag=m.flag,
            queue_offset=m.queue_offset,
            physical_offset=m.physical_offset,
            sys_flag=m.sys_flag,
            born_timestamp=m.born_timestamp,
            born_host=encode_host(*split_address(m.born_host)),
            store_timestamp=m.store_timestamp,
            store_host=encode_host(*split_address(m.store_host)),
            reconsume_times=m.reconsume_times,
            prepared_transaction_offset=m.prepared_transaction_offset,
            body=m.body,
            properties=props.encode_checked(m.properties),
        )
        position += size
    assert position == len(data) > 0


@pytest.mark.parametrize("frame", chosen(*STORED, direction="response"))
def test_stored_bodies_can_be_unpacked(frame: dict[str, Any]) -> None:
    for m in decode_records(read(frame).body):
        assert len(m.body) > 0


@pytest.mark.parametrize("frame", chosen(RequestCode.CHECK_TRANSACTION_STATE, direction="request"))
def test_a_check_carries_the_message_as_it_will_be(frame: dict[str, Any]) -> None:
    command = read(frame)
    (message,) = decode_records(command.body)
    header = command.read(transactions.CheckTransactionStateRequest)
    assert message.topic == message.properties[props.REAL_TOPIC] == "GoldenTransactions"
    assert message.properties[props.PRODUCER_GROUP] == "golden"
    assert int(message.properties[props.TRANSACTION_CHECK_TIMES]) >= 1
    assert message.unique_key == header.msg_id == header.transaction_id
    assert header.topic == "RMQ_SYS_TRANS_HALF_TOPIC"
    assert (message.queue_offset, message.physical_offset) == (
        header.tran_state_table_offset,
        header.commit_log_offset,
    )


@pytest.mark.parametrize("frame", chosen(RequestCode.SEND_BATCH_MESSAGE, direction="request"))
def test_batches_are_written_again(frame: dict[str, Any]) -> None:
    data = read(frame).body
    entries = decode_batch(data)
    assert len(entries) > 1
    assert encode_batch(entries) == data
    assert all(props.value_of(text.decode(), props.UNIQ_KEY) for _, _, text in entries)


def test_the_recording_has_both_codecs_and_all_kinds() -> None:
    assert {frame["codec"] for frame in FRAMES} == {"JSON", "ROCKETMQ"}
    assert {frame["link"] for frame in FRAMES} == {
        "client-namesrv",
        "client-broker",
        "broker-namesrv",
    }
    assert len({frame["name"] for frame in FRAMES}) == len(FRAMES)


def test_every_case_of_the_recorder_is_there() -> None:
    recorded = {frame["name"] for frame in FRAMES if frame["direction"] == "request"}
    assert recorded == {
        f"{codec.lower()}/{case.name}/request" for codec in CODECS for case in CASES
    }
