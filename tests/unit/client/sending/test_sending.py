"""Attempts, deadlines and errors of sends, against two brokers that answer as told."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.peers.client import Answer, Cluster, Peer, code, done, hang_up, silent, stored
from support.peers.transport import until

from pocketmq.client import (
    BatchFailedError,
    BrokerDownError,
    ClosedError,
    Message,
    MessageQueue,
    NoNameServerError,
    Producer,
    QueueChoiceError,
    SendFailedError,
    SendResult,
    SendStatus,
    SendTimeoutError,
    UnknownTopicError,
    by_hash,
)
from pocketmq.client.sending.sending import RETRY_CODES
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.errors import PocketMQError, ResponseError, UsageError
from pocketmq.protocol.messages.batch import decode_batch
from pocketmq.protocol.messages.message import ReceivedMessage
from pocketmq.protocol.requests.sending import SendMessageV2Request
from pocketmq.protocol.wire.command import Command
from pocketmq.transport.connection import Connection, Reply
from pocketmq.transport.errors import (
    CallTimeoutError,
    ConnectError,
    ConnectionClosedError,
    TooMuchRequestError,
)

SEND = RequestCode.SEND_MESSAGE_V2
BATCH = RequestCode.SEND_BATCH_MESSAGE
T = Message("T", b"x")


async def producer(cluster: Cluster, *brokers: str, **settings: Any) -> Producer:
    """A started producer and topic T on the brokers; without names, on a and b."""
    await cluster.add_namesrv()
    for name in brokers or ("a", "b"):
        await cluster.add_broker(name)
    cluster.topic("T", *(brokers or ("a", "b")))
    client = cluster.client()
    await client.start()
    made = Producer("pg", instance=client, **settings)
    await made.start()
    return made


def answer_all(cluster: Cluster, answer: Answer) -> None:
    for broker in cluster.brokers.values():
        broker.answers[SEND] = answer


def sends(cluster: Cluster) -> dict[str, int]:
    return {name: broker.count(SEND) for name, broker in cluster.brokers.items()}


def answer_first(cluster: Cluster, answer: Answer, *, times: int = 1) -> list[str]:
    """The first broker that is asked answers so, further ones store; lists who was asked."""
    asked: list[str] = []

    def respond(name: str) -> Answer:
        def respond_as(request: Command, connection: Connection) -> Reply:
            asked.append(name)
            return (answer if len(asked) <= times else stored)(request, connection)

        return respond_as

    for name, broker in cluster.brokers.items():
        broker.answers[SEND] = respond(name)
    return asked


async def test_what_a_result_says(cluster: Cluster) -> None:
    p = await producer(cluster, "a")
    message = Message("T", b"x")
    result = await done(p.send(message))
    assert result.status is SendStatus.SEND_OK
    assert result.msg_id == message.unique_key
    assert (result.offset_msg_id, result.queue_offset, result.region) == ("AA", 7, "R")
    assert result.transaction_id == "TT"
    header = cluster.brokers["a"].last(SEND).read(SendMessageV2Request)
    assert result.queue == MessageQueue("T", "a", header.queue_id)
    assert header.broker_name == "a"


@pytest.mark.parametrize(("status", "expected"), [(s.value, s) for s in SendStatus])
async def test_the_four_statuses(cluster: Cluster, status: int, expected: SendStatus) -> None:
    p = await producer(cluster)
    answer_all(cluster, lambda request, connection: stored(request, connection, status=status))
    assert (await done(p.send(T))).status is expected
    assert sum(sends(cluster).values()) == 1


async def test_the_queue_that_the_broker_chose_is_told(cluster: Cluster) -> None:
    p = await producer(cluster, "a")

    def elsewhere(request: Command, connection: Connection) -> Command:
        answer = stored(request, connection)
        assert answer.header is not None
        answer.header.queue_id = 1  # type: ignore[attr-defined]
        return answer

    answer_all(cluster, elsewhere)
    assert (await done(p.send(T))).queue.queue_id == 1


async def test_queues_take_turns(cluster: Cluster) -> None:
    p = await producer(cluster)
    queues = [(await done(p.send(T))).queue for _ in range(8)]
    assert len(set(queues)) == 4
    assert queues[:4] == queues[4:]


@pytest.mark.parametrize("retry_code", sorted(RETRY_CODES))
async def test_codes_that_another_broker_may_not_answer(cluster: Cluster, retry_code: int) -> None:
    p = await producer(cluster)
    asked = answer_first(cluster, code(retry_code))
    await done(p.send(T))
    assert len(set(asked)) == 2


def test_the_codes_are_rocketmqs() -> None:
    assert {int(c) for c in RETRY_CODES} == {17, 14, 1, 16, 204, 205, 2, 1500}


@pytest.mark.parametrize("final_code", [13, 29, 26, 604, 3])
async def test_codes_that_every_broker_would_answer(cluster: Cluster, final_code: int) -> None:
    p = await producer(cluster)
    asked = answer_first(cluster, code(final_code, "because"))
    with pytest.raises(ResponseError, match="because") as caught:
        await done(p.send(T))
    assert caught.value.code == final_code
    assert len(asked) == 1


async def test_a_broker_that_hangs_up(cluster: Cluster) -> None:
    p = await producer(cluster)
    asked = answer_first(cluster, hang_up)
    await done(p.send(T))
    assert len(set(asked)) == 2


async def test_a_broker_that_is_gone(cluster: Cluster) -> None:
    p = await producer(cluster)
    await done(cluster.brokers["a"].server.close())
    for _ in range(4):
        assert (await done(p.send(T))).queue.broker_name == "b"


async def test_three_attempts_in_all(cluster: Cluster) -> None:
    p = await producer(cluster)
    answer_all(cluster, code(ResponseCode.SERVICE_NOT_AVAILABLE, "disk full"))
    with pytest.raises(SendFailedError) as caught:
        await done(p.send(T))
    error = caught.value
    names = [attempt.broker_name for attempt in error.attempts]
    assert len(names) == 3
    assert names[0] != names[1] != names[2]
    assert error.code == 14
    assert "3 attempts" in str(error)
    assert "disk full" in str(error)
    assert isinstance(error.__cause__, ResponseError)


@pytest.mark.parametrize("retries", [0, 1, 5])
async def test_the_number_of_attempts_is_a_setting(cluster: Cluster, retries: int) -> None:
    p = await producer(cluster, retry_times_when_send_failed=retries)
    answer_all(cluster, code(1))
    with pytest.raises(SendFailedError):
        await done(p.send(T))
    assert sum(sends(cluster).values()) == 1 + retries


async def test_one_broker_is_tried_again(cluster: Cluster) -> None:
    p = await producer(cluster, "a")
    asked = answer_first(cluster, code(2), times=2)
    await done(p.send(T))
    assert asked == ["a", "a", "a"]


async def test_an_attempt_that_is_not_answered_ends_at_the_timeout(cluster: Cluster) -> None:
    p = await producer(cluster)
    answer_all(cluster, silent)
    sending = asyncio.ensure_future(p.send(T))
    await until(lambda: sum(sends(cluster).values()) == 1)
    await cluster.clock.advance(2.999)
    assert not sending.done()
    await cluster.clock.advance(0.001)
    await until(sending.done)
    error = sending.exception()
    assert isinstance(error, SendTimeoutError)
    assert isinstance(error, TimeoutError)
    assert isinstance(error.attempts[0].error, CallTimeoutError)
    assert error.elapsed_ms == pytest.approx(3000)


async def test_the_timeout_covers_all_attempts(cluster: Cluster) -> None:
    """Two slow refusals of a second each leave one second for the third attempt."""
    p = await producer(cluster)

    async def late(request: Command, connection: Connection) -> Command:
        await cluster.clock.sleep(1)
        return Command(ResponseCode.SYSTEM_BUSY, remark="slow")

    def respond(request: Command, connection: Connection) -> Reply:
        asked.append(request)
        return late(request, connection) if len(asked) < 3 else None

    asked: list[Command] = []
    answer_all(cluster, respond)
    sending = asyncio.ensure_future(p.send(T))
    for second in range(3):
        await until(lambda n=second: len(asked) == n + 1)  # type: ignore[misc]
        assert not sending.done()
        await cluster.clock.advance(1)
    await until(sending.done)
    error = sending.exception()
    assert isinstance(error, SendTimeoutError)
    assert [type(a.error).__name__ for a in error.attempts] == [
        "BusyError",
        "BusyError",
        "CallTimeoutError",
    ]
    assert error.elapsed_ms == pytest.approx(3000)


async def test_a_timeout_of_the_call(cluster: Cluster) -> None:
    p = await producer(cluster)
    answer_all(cluster, silent)
    sending = asyncio.ensure_future(p.send(T, timeout_ms=500))
    await until(lambda: sum(sends(cluster).values()) == 1)
    await cluster.clock.advance(0.5)
    await until(sending.done)
    assert isinstance(sending.exception(), SendTimeoutError)


@pytest.mark.parametrize("closes", [True, False])
async def test_a_silent_connection_is_given_up(cluster: Cluster, closes: bool) -> None:
    await cluster.add_namesrv()
    broker = await cluster.add_broker("a")
    cluster.topic("T", "a")
    client = cluster.client(close_connection_on_timeout=closes)
    await client.start()
    p = Producer("pg", instance=client)
    await p.start()
    broker.answers[SEND] = silent
    sending = asyncio.ensure_future(p.send(T))
    await until(lambda: broker.count(SEND) == 1)
    await cluster.clock.advance(3)
    await until(sending.done)
    sending.exception()
    if closes:
        await until(lambda: not broker.server.connections)
    assert len(broker.server.connections) == (0 if closes else 1)
    broker.answers[SEND] = stored
    await done(p.send(T))


async def test_go_away_makes_the_client_reconnect(cluster: Cluster) -> None:
    p = await producer(cluster, "a")
    seen = []

    def go_away(request: Command, connection: Connection) -> Command:
        seen.append(connection)
        return Command(ResponseCode.GO_AWAY, remark="restart")

    def note(request: Command, connection: Connection) -> Command:
        seen.append(connection)
        return stored(request, connection)

    def first_go_away(request: Command, connection: Connection) -> Command:
        return note(request, connection) if seen else go_away(request, connection)

    broker = cluster.brokers["a"]
    broker.answers[SEND] = first_go_away
    await done(p.send(T))
    assert len(seen) == 2
    assert seen[0] is not seen[1]


async def test_not_stored_safely_may_be_tried_elsewhere(cluster: Cluster) -> None:
    p = await producer(cluster, retry_another_broker_when_not_store_ok=True)
    asked = answer_first(cluster, lambda r, c: stored(r, c, status=10))
    assert (await done(p.send(T))).status is SendStatus.SEND_OK
    assert len(set(asked)) == 2
    answer_all(cluster, lambda r, c: stored(r, c, status=12))
    assert (await done(p.send(T))).status is SendStatus.FLUSH_SLAVE_TIMEOUT


async def test_slow_brokers_are_left_out_when_that_is_switched_on(cluster: Cluster) -> None:
    p = await producer(cluster, send_latency_fault_enable=True)

    async def late(request: Command, connection: Connection) -> Command:
        await cluster.clock.sleep(0.6)
        return stored(request, connection)

    cluster.brokers["a"].answers[SEND] = late
    first = asyncio.ensure_future(p.send(T))
    while not first.done():
        await cluster.clock.advance(0.1)
    if first.result().queue.broker_name == "b":
        second = asyncio.ensure_future(p.send(T))
        third = asyncio.ensure_future(p.send(T))
        while not (second.done() and third.done()):
            await cluster.clock.advance(0.1)
    for _ in range(6):
        assert (await done(p.send(T))).queue.broker_name == "b"
    await cluster.clock.advance(30)
    cluster.brokers["a"].answers[SEND] = stored
    names = {(await done(p.send(T))).queue.broker_name for _ in range(6)}
    assert names == {"a", "b"}


# -- choosing the queue -----------------------------------------------------------------------


async def test_an_explicit_queue_has_one_attempt(cluster: Cluster) -> None:
    p = await producer(cluster)
    queue = MessageQueue("T", "b", 1)
    assert (await done(p.send(T, queue=queue))).queue == queue
    answer_all(cluster, code(1))
    with pytest.raises(SendFailedError):
        await done(p.send(T, queue=queue))
    assert sends(cluster) == {"a": 0, "b": 2}


async def test_an_explicit_queue_is_checked(cluster: Cluster) -> None:
    p = await producer(cluster)
    with pytest.raises(QueueChoiceError, match="another topic"):
        await done(p.send(T, queue=MessageQueue("U", "a", 0)))
    with pytest.raises(QueueChoiceError, match="selector is given"):
        await done(p.send(T, queue=MessageQueue("T", "a", 0), selector=by_hash))
    with pytest.raises(SendFailedError) as caught:
        await done(p.send(T, queue=MessageQueue("T", "x", 0)))
    assert isinstance(caught.value.attempts[0].error, BrokerDownError)


async def test_selectors(cluster: Cluster) -> None:
    p = await producer(cluster)
    chosen = {(await done(p.send(T, selector=by_hash, arg="k"))).queue for _ in range(5)}
    assert len(chosen) == 1
    seen: list[object] = []

    def last(queues: object, message: Message, arg: object) -> MessageQueue:
        seen.extend((queues, message, arg))
        return MessageQueue("T", "b", 1)

    assert (await done(p.send(T, selector=last, arg=3))).queue == MessageQueue("T", "b", 1)
    assert seen == [await done(p.queues("T")), T, 3]
    with pytest.raises(QueueChoiceError, match="must return one"):
        await done(p.send(T, selector=lambda q, m, a: MessageQueue("T", "z", 0)))


# -- where nothing can be sent ----------------------------------------------------------------


async def test_unknown_topic(cluster: Cluster) -> None:
    p = await producer(cluster)
    with pytest.raises(UnknownTopicError):
        await done(p.send(Message("Nope", b"x")))
    with pytest.raises(UnknownTopicError):
        await done(p.send(Message("Nope", b"x"), queue=MessageQueue("Nope", "x", 0)))


async def test_no_name_server(cluster: Cluster) -> None:
    p = await producer(cluster)
    await done(cluster.namesrvs[0].server.close())
    with pytest.raises(NoNameServerError):
        await done(p.send(T))


async def test_a_silent_name_server_does_not_outlast_the_timeout(cluster: Cluster) -> None:
    p = await producer(cluster)
    namesrv = cluster.namesrvs[0]
    namesrv.answers[RequestCode.GET_ROUTEINFO_BY_TOPIC] = silent
    sending = asyncio.ensure_future(p.send(T, timeout_ms=1000))
    await until(lambda: namesrv.requests)
    await cluster.clock.advance(1)
    await until(sending.done)
    error = sending.exception()
    assert isinstance(error, NoNameServerError)
    assert "within the send timeout of 1000 ms" in str(error)


async def test_all_brokers_gone(cluster: Cluster) -> None:
    p = await producer(cluster)
    for broker in cluster.brokers.values():
        await done(broker.server.close())
    with pytest.raises(SendFailedError) as caught:
        await done(p.send(T))
    assert {type(a.error) for a in caught.value.attempts} == {ConnectError}
    assert caught.value.code is None


# -- with a callback, and one-way -------------------------------------------------------------


async def test_send_async(cluster: Cluster) -> None:
    p = await producer(cluster)
    outcomes: list[SendResult | PocketMQError] = []
    asked = answer_first(cluster, code(2), times=2)
    p.send_async(T, outcomes.append)
    await until(lambda: outcomes)
    assert isinstance(outcomes[0], SendResult)
    assert len(asked) == 3


async def test_send_async_has_retries_of_its_own(cluster: Cluster) -> None:
    p = await producer(cluster, retry_times_when_send_async_failed=0)
    outcomes: list[SendResult | PocketMQError] = []
    answer_all(cluster, code(2))
    p.send_async(T, outcomes.append)
    await until(lambda: outcomes)
    assert isinstance(outcomes[0], SendFailedError)
    assert sum(sends(cluster).values()) == 1


async def test_send_async_tells_errors_of_its_caller_at_once(cluster: Cluster) -> None:
    p = await producer(cluster)
    with pytest.raises(UsageError):
        p.send_async(Message("T"), print)


async def test_sends_with_callbacks_are_bounded(cluster: Cluster) -> None:
    p = await producer(cluster, async_sends_max=2)
    answer_all(cluster, silent)
    outcomes: list[object] = []
    p.send_async(Message("T", b"1"), outcomes.append)
    p.send_async(Message("T", b"2"), outcomes.append)
    with pytest.raises(TooMuchRequestError, match="async send"):
        p.send_async(Message("T", b"3"), outcomes.append)
    await until(lambda: sum(sends(cluster).values()) == 2)
    await cluster.clock.advance(3)
    await until(lambda: len(outcomes) == 2)
    answer_all(cluster, stored)
    p.send_async(Message("T", b"4"), outcomes.append)
    await until(lambda: len(outcomes) == 3)


async def test_close_waits_for_callbacks(cluster: Cluster) -> None:
    p = await producer(cluster)
    outcomes: list[object] = []
    for _ in range(10):
        p.send_async(Message("T", b"1"), outcomes.append)
    await done(p.close())
    assert len(outcomes) == 10
    assert all(isinstance(o, SendResult) for o in outcomes)


async def test_oneway_asks_for_no_answer(cluster: Cluster) -> None:
    p = await producer(cluster)
    await done(p.send_oneway(T, queue=MessageQueue("T", "a", 1)))
    await done(p.send_oneway(T, selector=by_hash, arg=0))
    await done(p.send_oneway(T))
    await until(lambda: sum(sends(cluster).values()) == 3)
    requests = [r for b in cluster.brokers.values() for r in b.requests if r.code == SEND]
    assert all(r.is_oneway for r in requests)
    first = next(r for r in cluster.brokers["a"].requests if r.code == SEND)
    assert first.read(SendMessageV2Request).queue_id == 1


async def test_oneway_to_a_broker_that_is_gone(cluster: Cluster) -> None:
    p = await producer(cluster, "a")
    await done(cluster.brokers["a"].server.close())
    with pytest.raises((ConnectError, ConnectionClosedError)):
        await done(p.send_oneway(T))


# -- batches ----------------------------------------------------------------------------------


async def test_a_batch(cluster: Cluster) -> None:
    p = await producer(cluster, "a")
    messages = [Message("T", b"%d" % i) for i in range(5)]
    (result,) = await done(p.send_batch(messages))
    assert result.count == 5
    assert result.msg_id == ",".join(m.unique_key or "" for m in messages)
    request = cluster.brokers["a"].last(BATCH)
    assert [body for _, body, _ in decode_batch(request.body)] == [b"0", b"1", b"2", b"3", b"4"]
    assert request.read(SendMessageV2Request).batch is True


async def test_a_large_batch_goes_in_parts(cluster: Cluster) -> None:
    p = await producer(cluster, "a", max_message_size=1000)
    queue = MessageQueue("T", "a", 1)
    results = await done(p.send_batch([Message("T", b"x" * 200) for _ in range(9)], queue=queue))
    assert [r.count for r in results] == [2, 2, 2, 2, 1]
    assert {r.queue for r in results} == {queue}


async def test_a_batch_that_fails_half_way(cluster: Cluster) -> None:
    p = await producer(cluster, "a", max_message_size=1000)
    broker: Peer = cluster.brokers["a"]
    broker.answers[BATCH] = lambda r, c: (
        stored(r, c) if broker.count(BATCH) < 3 else Command(13, remark="bad")
    )
    with pytest.raises(BatchFailedError, match=r"last 5 messages were not: .*bad") as caught:
        await done(p.send_batch([Message("T", b"x" * 200) for _ in range(9)]))
    assert [r.count for r in caught.value.stored] == [2, 2]
    assert caught.value.unsent_count == 5


async def test_a_batch_that_fails_at_once(cluster: Cluster) -> None:
    p = await producer(cluster, "a")
    cluster.brokers["a"].answers[BATCH] = code(13, "bad")
    with pytest.raises(ResponseError, match="bad"):
        await done(p.send_batch([T]))
    with pytest.raises(QueueChoiceError):
        await done(p.send_batch([T], queue=MessageQueue("U", "a", 0)))


# -- life -------------------------------------------------------------------------------------


async def test_it_must_run(cluster: Cluster) -> None:
    p = Producer("pg", "127.0.0.1:9", clock=cluster.clock)
    with pytest.raises(ClosedError, match="async with"):
        await p.send(T)
    async with p:
        pass
    with pytest.raises(ClosedError):
        await p.send(T)
    await p.close()


async def test_a_shared_instance_must_run(cluster: Cluster) -> None:
    await cluster.add_namesrv()
    with pytest.raises(ClosedError):
        await Producer("pg", instance=cluster.client()).start()


async def test_a_group_is_there_once(cluster: Cluster) -> None:
    p = await producer(cluster)
    with pytest.raises(UsageError, match="instance of its own"):
        await Producer("pg", instance=p.instance).start()
    await done(p.close())
    await Producer("pg", instance=p.instance).start()


async def test_goodbye(cluster: Cluster) -> None:
    p = await producer(cluster, "a")
    await done(p.send(T))
    await done(p.close())
    assert cluster.brokers["a"].count(RequestCode.UNREGISTER_CLIENT) == 1


async def test_received_messages_can_be_sent_on(cluster: Cluster) -> None:
    p = await producer(cluster, "a")
    message = ReceivedMessage()
    message.topic, message.body, message.flag, message.properties = "T", b"x", 0, {"UNIQ_KEY": "K"}
    assert (await done(p.send(message))).msg_id == "K"
