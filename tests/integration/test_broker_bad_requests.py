"""Requests that no honest client sends: the broker answers each with an error, and lives on."""

from __future__ import annotations

import asyncio
import importlib
import logging
import pkgutil
from collections.abc import Iterator
from functools import partial

import msgspec
import pytest
from support.brokers.broker_parts import GROUP, TIMEOUT_MS, TOPIC, Stage
from support.peers.transport import until

import pocketmq.protocol.requests as families
from pocketmq.broker.handlers.unsupported import UNSUPPORTED
from pocketmq.broker.popping.waiting import PopWaiting
from pocketmq.protocol.bodies.clients import Subscription
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.names import names
from pocketmq.protocol.requests.transactions import EndTransactionRequest
from pocketmq.protocol.wire.command import Command
from pocketmq.protocol.wire.header import RequestHeader, wire_fields

ODD_VALUES = (
    "",
    "-1",
    "1",
    str(2**31),
    str(2**63 - 1),
    str(-(2**63)),
    "9" * 5000,
    "nan",
    "\x00\x01\x02",
    "../../etc",
    "\N{SNOWMAN}\U0001d11e",
    "a" * 70_000,
    "%RETRY%",
    names.HALF_TOPIC,
)

ODD_BODIES = (
    b"",
    b"x",
    b"{}",
    b"[]",
    b"null",
    b'{"a":',
    b"\xff" * 100,
    bytes(400),
    b'{"clientID":"c","consumerDataSet":null,"producerDataSet":null}',
    b'{"clientID":"\\ud800","consumerDataSet":[{"groupName":"\\ud800"}]}',
    b'{"groupName":"g","retryQueueNums":-1}',
    b'{"groupName":"../..","retryQueueNums":1}',
    b'{"groupConfigList":[{}]}',
    *(
        b'{"clientId":"%b","consumerGroup":"%b","mqSet":[{"topic":"%b","brokerName":"b",'
        b'"queueId":%d}]}' % odd
        for odd in (
            (b"c", b"g", b"T", 10**20),
            (b"c", b"g", b"T", -1),
            (b"c", b"g/", b"T", 0),
            (b"c", b"g", b"T" * 300, 0),
            (b"", b"g", b"T", 0),
            (b"c" * 300, b"g", b"T", 0),
        )
    ),
)

CLASSLESS = {RequestCode.TRIGGER_DELETE_FILES}
"""Served without a request class: it has no fields."""


def request_classes() -> Iterator[type[RequestHeader]]:
    for module in pkgutil.walk_packages(families.__path__, f"{families.__name__}."):
        for value in vars(importlib.import_module(module.name)).values():
            is_class = isinstance(value, type) and issubclass(value, RequestHeader)
            if is_class and hasattr(value, "code"):
                yield value


def sound_fields(cls: type[RequestHeader]) -> dict[str, str]:
    """What a request must have at the least, with values that could be right."""
    fields = {}
    known = msgspec.inspect.type_info(cls)
    assert isinstance(known, msgspec.inspect.StructType)
    for field in known.fields:
        name = field.encode_name
        if name == "commitOrRollback":
            fields[name] = "8"  # what a producer does not know is not answered
        elif isinstance(field.type, msgspec.inspect.StrType):
            is_group, is_topic = "group" in field.name, "topic" in field.name
            fields[name] = GROUP if is_group else TOPIC if is_topic else "x"
        elif isinstance(field.type, msgspec.inspect.BoolType):
            fields[name] = "false"
        elif isinstance(field.type, msgspec.inspect.IntType):
            fields[name] = "0"
    return fields


def odd_requests(cls: type[RequestHeader]) -> Iterator[Command]:
    fields = sound_fields(cls)
    for body in ODD_BODIES:
        yield Command(cls.code, extra=dict(fields), body=body)
    for _, name in wire_fields(cls):
        for value in (None, *ODD_VALUES):
            given = {**fields, name: value}
            extra = {name: value for name, value in given.items() if value is not None}
            yield Command(cls.code, extra=extra, body=b"x")


def _is_settled(call: asyncio.Future[Command], waiting: PopWaiting) -> bool:
    """Whether a request is answered, or waits for messages."""
    return call.done() or len(waiting) > 0


async def test_whatever_a_request_holds_it_is_answered(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    # The first bulk append loads this in a thread, which takes its own time.
    importlib.import_module("pocketmq.broker.appending.bulk_records")
    client = await stage.started_with_topic(connection_idle_timeout=86_400_000)
    await client.send(b"x")
    await client.heartbeat(Subscription(topic=TOPIC, sub_string="*"))
    connection = await client.pool.get(client.broker.address)
    codes: set[RequestCode] = set()
    waiting = client.broker.parts.waiting
    for cls in request_classes():
        for command in odd_requests(cls) if cls.code in client.broker.handlers else ():
            what = f"{cls.__name__} {command.extra!r:.300} {command.body!r:.80}"
            call = asyncio.ensure_future(connection.call(command, TIMEOUT_MS))
            await until(partial(_is_settled, call, waiting))
            waiting.release_all()
            await call
            codes.add(cls.code)
            failures = [r for r in caplog.records if r.levelno >= logging.ERROR]
            assert not failures, f"{what}: {failures[0].exc_info}"
            caplog.clear()
    assert codes >= set(client.broker.handlers) - set(UNSUPPORTED) - CLASSLESS
    for code in [*UNSUPPORTED, *CLASSLESS]:
        for body in ODD_BODIES:
            answer = await connection.call(Command(code, extra={"x": "y"}, body=body), TIMEOUT_MS)
            if code in UNSUPPORTED:
                assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert not [r for r in caplog.records if r.levelno >= logging.ERROR]
    await client.create_topic("Afterwards")
    await client.send(b"y", topic="Afterwards")
    assert (await client.pull(topic="Afterwards")).bodies == [b"y"]


async def test_a_decision_that_does_not_exist_is_refused(stage: Stage) -> None:
    client = await stage.started_with_topic()
    refusal = await client.refusal(
        EndTransactionRequest(
            producer_group=GROUP,
            tran_state_table_offset=0,
            commit_log_offset=0,
            commit_or_rollback=5,
            from_transaction_check=False,
            msg_id="x",
        )
    )
    assert (refusal.code, "commitOrRollback is 5" in refusal.remark) == (29, True)
