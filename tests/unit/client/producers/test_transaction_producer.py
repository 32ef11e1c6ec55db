"""The transactional producer against a scripted broker: what it sends, and what it answers."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest
from support.peers.client import Cluster, Peer, code, done
from support.peers.messages import record
from support.peers.transport import until

from pocketmq.client import (
    ClosedError,
    LocalTransactionState,
    Message,
    ReceivedMessage,
    SendFailedError,
    SendStatus,
    TransactionProducer,
)
from pocketmq.client.instance.heartbeat import InstanceGroups
from pocketmq.protocol import flags
from pocketmq.protocol.bodies.clients import Heartbeat
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.errors import ConfigError, UsageError
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.requests.sending import SendMessageResponse, SendMessageV2Request
from pocketmq.protocol.requests.transactions import (
    CheckTransactionStateRequest,
    EndTransactionRequest,
)
from pocketmq.protocol.wire.command import Command
from pocketmq.testing.clock import VirtualClock, settle
from pocketmq.transport.connection import Connection

SEND, END = RequestCode.SEND_MESSAGE_V2, RequestCode.END_TRANSACTION
COMMIT, ROLLBACK, UNKNOWN = LocalTransactionState
PLACE = 77


class Listener:
    """A listener whose methods are coroutine functions that do what the test says."""

    def __init__(self) -> None:
        self.executed: list[tuple[Message, Any]] = []
        self.checked: list[ReceivedMessage] = []
        self.execute: Callable[[], Any] = lambda: COMMIT
        self.check: Callable[[], Any] = lambda: COMMIT
        self.gate = asyncio.Event()
        self.gate.set()

    async def execute_local_transaction(self, message: Message, arg: Any) -> Any:
        self.executed.append((message, arg))
        await self.gate.wait()
        return self.execute()

    async def check_local_transaction(self, message: ReceivedMessage) -> Any:
        self.checked.append(message)
        await self.gate.wait()
        return self.check()


class PlainListener:
    """A listener of plain functions; it notes the threads that they run in."""

    def __init__(self) -> None:
        self.threads: set[threading.Thread] = set()

    def execute_local_transaction(self, message: Message, arg: Any) -> LocalTransactionState:
        self.threads.add(threading.current_thread())
        return ROLLBACK

    def check_local_transaction(self, message: ReceivedMessage) -> LocalTransactionState:
        self.threads.add(threading.current_thread())
        return ROLLBACK


class Asking:
    """A broker that knows the connections of the producer and asks through them."""

    def __init__(self, broker: Peer) -> None:
        self.broker = broker
        self.connections: list[Connection] = []
        broker.answers[SEND] = self.stored
        broker.answers[END] = lambda request, connection: None
        self.status = 0

    def stored(self, request: Command, connection: Connection) -> Command:
        self.connections.append(connection)
        header = SendMessageResponse(
            msg_id=f"7F00000100002A9F{PLACE:016X}", queue_id=request.read(
                SendMessageV2Request).queue_id, queue_offset=5, transaction_id="TX",
        )  # fmt: skip
        return Command(self.status, header=header)

    def ask(self, offset: int, key: str = "", group: str = "pg") -> None:
        properties = props.encode(
            {props.UNIQ_KEY: key or f"U{offset}", props.PRODUCER_GROUP: group}
        )
        header = CheckTransactionStateRequest(
            topic="RMQ_SYS_TRANS_HALF_TOPIC", tran_state_table_offset=offset,
            commit_log_offset=offset * 10, msg_id=f"U{offset}", transaction_id=f"U{offset}",
            broker_name="a",
        )  # fmt: skip
        body = record(offset, b"body", properties=properties.encode())
        self.connections[-1].notify(Command(header.code, header=header, body=body))

    @property
    def ends(self) -> list[EndTransactionRequest]:
        """What it was told."""
        requests = [r for r in self.broker.requests if r.code == END]
        assert all(r.is_oneway for r in requests)
        return [r.read(EndTransactionRequest) for r in requests]

    async def told(self, count: int) -> list[EndTransactionRequest]:
        """Returns when it was told so many ends."""
        await until(lambda: len(self.ends) >= count)
        return self.ends


async def stage(
    cluster: Cluster, listener: Any, **settings: Any
) -> tuple[Asking, TransactionProducer]:
    await cluster.add_namesrv()
    broker = Asking(await cluster.add_broker("a"))
    cluster.topic("T", "a")
    instance = cluster.client()
    await instance.start()
    producer = TransactionProducer("pg", listener=listener, instance=instance, **settings)
    await producer.start()
    return broker, producer


async def test_a_transaction_is_executed_between_the_message_and_its_end(cluster: Cluster) -> None:
    listener = Listener()
    broker, producer = await stage(cluster, listener)
    listener.execute = lambda: COMMIT if not broker.ends else ROLLBACK
    message = Message("T", b"x", properties={"colour": "red"})
    result = await done(producer.send_in_transaction(message, {"order": 1}))
    (end,) = await broker.told(1)
    request = broker.broker.last(SEND).read(SendMessageV2Request)
    assert request.sys_flag == flags.TRANSACTION_PREPARED
    sent = props.decode(request.properties or "")
    assert (sent["TRAN_MSG"], sent["PGROUP"], sent["colour"]) == ("true", "pg", "red")
    assert listener.executed == [(message, {"order": 1})]
    assert end == EndTransactionRequest(
        topic="T", producer_group="pg", tran_state_table_offset=5, commit_log_offset=PLACE,
        commit_or_rollback=8, from_transaction_check=False, msg_id=sent["UNIQ_KEY"],
        transaction_id="TX", broker_name="a",
    )  # fmt: skip
    assert (result.local_state, result.msg_id, result.status) == (
        COMMIT, sent["UNIQ_KEY"], SendStatus.SEND_OK,
    )  # fmt: skip
    assert not {"TRAN_MSG", "PGROUP"} & message.properties.keys(), "it can be sent as it is again"
    await done(producer.close())


async def test_plain_methods_run_in_threads(cluster: Cluster) -> None:
    listener = PlainListener()
    broker, producer = await stage(cluster, listener)
    result = await producer.send_in_transaction(Message("T", b"x"))
    assert result.local_state is ROLLBACK
    broker.ask(9)
    while len(broker.ends) < 2:
        await asyncio.to_thread(lambda: None)
    assert {end.commit_or_rollback for end in broker.ends} == {12}
    assert threading.main_thread() not in listener.threads
    assert len(listener.threads) == 2
    await producer.close()


@pytest.mark.parametrize("outcome", [None, "commit", True, ValueError("no")])
async def test_whatever_is_no_state_is_unknown_and_logged(
    cluster: Cluster, outcome: object, caplog: pytest.LogCaptureFixture
) -> None:
    listener = Listener()
    broker, producer = await stage(cluster, listener)

    def give() -> object:
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    listener.execute = listener.check = give
    result = await done(producer.send_in_transaction(Message("T", b"x")))
    assert result.local_state is UNKNOWN
    broker.ask(9)
    first, second = await broker.told(2)
    assert (first.commit_or_rollback, second.commit_or_rollback) == (0, 0)
    warnings = [r for r in caplog.records if "is unknown" in r.message]
    assert [("execute" in r.message, "check" in r.message) for r in warnings] == [
        (True, False), (False, True),
    ]  # fmt: skip
    if isinstance(outcome, Exception):
        assert all(r.exc_info and r.exc_info[1] is outcome for r in warnings)
        assert broker.broker.last(END).remark == "ValueError: no"
    await done(producer.close())


async def test_what_is_stored_less_safely_than_asked_is_rolled_back(cluster: Cluster) -> None:
    listener = Listener()
    broker, producer = await stage(cluster, listener)
    broker.status = 10
    result = await done(producer.send_in_transaction(Message("T", b"x")))
    assert (result.status, result.local_state) == (SendStatus.FLUSH_DISK_TIMEOUT, ROLLBACK)
    (end,) = await broker.told(1)
    assert end.commit_or_rollback == 12
    assert listener.executed == []
    await done(producer.close())


async def test_without_a_stored_message_nothing_is_executed(cluster: Cluster) -> None:
    listener = Listener()
    broker, producer = await stage(cluster, listener)
    broker.broker.answers[SEND] = code(1, "no room")
    with pytest.raises(SendFailedError):
        await done(producer.send_in_transaction(Message("T", b"x")))
    for given in ({"DELAY": "3"}, {"TIMER_DELAY_SEC": "3"}):
        with pytest.raises(UsageError, match="cannot be delayed"):
            await done(producer.send_in_transaction(Message("T", b"x", properties=given)))
    await done(producer.close())
    with pytest.raises(ClosedError):
        await done(producer.send_in_transaction(Message("T", b"x")))
    assert (listener.executed, broker.ends) == ([], [])


@pytest.mark.parametrize("is_gone", [True, False])
async def test_an_end_that_cannot_be_told_is_left_to_the_brokers_question(
    cluster: Cluster, is_gone: bool, caplog: pytest.LogCaptureFixture
) -> None:
    listener = Listener()
    broker, producer = await stage(cluster, listener)
    listener.gate.clear()
    sending = asyncio.ensure_future(producer.send_in_transaction(Message("T", b"x")))
    await until(lambda: listener.executed)
    if is_gone:
        await broker.broker.server.close()
    else:
        cluster.topic("T", "nobody")
        await producer.instance.routes.refresh()
    listener.gate.set()
    assert (await done(sending)).local_state is COMMIT
    assert "could not be told" in caplog.text
    await done(producer.close())


# -- questions ----------------------------------------------------------------------------------


async def test_a_question_is_answered_with_its_own_numbers(cluster: Cluster) -> None:
    listener = Listener()
    broker, producer = await stage(cluster, listener)
    await done(producer.send_in_transaction(Message("T", b"x")))
    broker.ask(9)
    _, answer = await broker.told(2)
    assert answer == EndTransactionRequest(
        topic="RMQ_SYS_TRANS_HALF_TOPIC", producer_group="pg", tran_state_table_offset=9,
        commit_log_offset=90, commit_or_rollback=8, from_transaction_check=True, msg_id="U9",
        transaction_id="U9", broker_name="a",
    )  # fmt: skip
    (message,) = listener.checked
    assert (message.body, message.unique_key) == (b"body", "U9")
    await done(producer.close())


async def test_many_questions_are_worked_off_a_few_at_once_and_what_is_too_much_is_dropped(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    listener = Listener()
    broker, producer = await stage(
        cluster, listener, check_concurrency=3, check_request_hold_max=10
    )
    await done(producer.send_in_transaction(Message("T", b"x")))
    listener.gate.clear()
    for offset in range(12):
        broker.ask(offset)
    await until(lambda: caplog.text.count("is dropped") == 2)
    await settle()
    assert len(listener.checked) == 3
    listener.gate.set()
    answers = (await broker.told(11))[1:]
    await settle()
    assert sorted(a.tran_state_table_offset for a in answers) == list(range(10))
    broker.ask(99)
    await broker.told(12)
    await done(producer.close())


async def test_a_hanging_check_takes_one_place_and_answers_the_newest_question(
    cluster: Cluster,
) -> None:
    listener = Listener()
    broker, producer = await stage(cluster, listener, check_concurrency=2)
    await done(producer.send_in_transaction(Message("T", b"x")))
    listener.gate.clear()
    for offset in (3, 4, 5):
        broker.ask(offset, key="same")
    await until(lambda: listener.checked)
    await settle()
    assert len(listener.checked) == 1
    listener.gate.set()
    await broker.told(2)
    await settle()
    assert [end.tran_state_table_offset for end in broker.ends] == [5, 5]
    await done(producer.close())


async def test_questions_to_groups_that_are_not_here_are_logged(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    listener = Listener()
    broker, producer = await stage(cluster, listener)
    await done(producer.send_in_transaction(Message("T", b"x")))
    broker.ask(9, group="others")
    await until(lambda: "transaction of group others" in caplog.text)
    assert listener.checked == []
    await done(producer.close())


# -- life ---------------------------------------------------------------------------------------


async def test_it_is_known_as_a_producer_before_it_sends(cluster: Cluster) -> None:
    broker, producer = await stage(cluster, Listener())
    await done(producer.send_in_transaction(Message("T", b"x")))
    await until(lambda: broker.broker.count(RequestCode.HEART_BEAT))
    data = Heartbeat.decode(broker.broker.last(RequestCode.HEART_BEAT).body)
    assert [p.group_name for p in data.producer_data_set] == ["pg"]
    await done(producer.close())


async def test_a_close_waits_for_what_is_at_work(cluster: Cluster) -> None:
    listener = Listener()
    broker, producer = await stage(cluster, listener)
    await done(producer.send_in_transaction(Message("T", b"x")))
    listener.gate.clear()
    broker.ask(9)
    sending = asyncio.ensure_future(producer.send_in_transaction(Message("T", b"y")))
    await until(lambda: listener.checked and len(listener.executed) == 2)
    closing = asyncio.ensure_future(producer.close())
    await settle()
    assert not closing.done()
    with pytest.raises(ClosedError):
        await producer.send_in_transaction(Message("T", b"z"))
    listener.gate.set()
    await done(closing)
    await done(sending)
    assert len(await broker.told(3)) == 3
    await done(producer.close())


async def test_a_close_does_not_wait_for_ever(
    cluster: Cluster, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    listener = Listener()
    broker, producer = await stage(cluster, listener, close_timeout_ms=5000)
    await done(producer.send_in_transaction(Message("T", b"x")))
    listener.gate.clear()
    broker.ask(9)
    await until(lambda: listener.checked)
    closing = asyncio.ensure_future(producer.close())
    await clock.advance(4.9)
    assert not closing.done()
    await clock.advance(0.2)
    await done(closing)
    assert len(broker.ends) == 1
    assert producer.instance.groups.checkers == InstanceGroups().checkers


def test_a_listener_needs_both_methods() -> None:
    class Half:
        async def execute_local_transaction(self, message: Message, arg: object) -> None: ...

    with pytest.raises(ConfigError, match="has no method check_local_transaction"):
        TransactionProducer("g", "127.0.0.1:9876", listener=Half())  # type: ignore[arg-type]
