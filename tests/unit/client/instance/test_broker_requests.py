"""What a broker asks of a consumer in a namespace: names there are those of the wire."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio
from support.peers.client import Cluster, Log, Peer, done, offset
from support.peers.messages import record
from support.peers.transport import until
from unit.client.consumers.test_push_consumer import COMMIT, PULL, Seen, commits

from pocketmq.client import LocalTransactionState, PushConsumer, TransactionProducer
from pocketmq.protocol.bodies.groups import (
    CR_SUCCESS,
    ConsumeDirectlyResult,
    ConsumerStatus,
    ResetOffsets,
    RunningInfo,
)
from pocketmq.protocol.bodies.topics import QueueKey
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.requests.groups import (
    ClientResetOffsetRequest,
    ClientStatusRequest,
    ConsumeDirectlyRequest,
    RunningInfoRequest,
)
from pocketmq.protocol.requests.transactions import (
    CheckTransactionStateRequest,
    EndTransactionRequest,
)
from pocketmq.protocol.wire.command import Command
from pocketmq.protocol.wire.header import RequestHeader

TOPIC, GROUP, RETRY = "shop%T", "shop%cg", "%RETRY%shop%cg"


class Stage:
    """A broker, and a consumer in the namespace "shop" that it asks."""

    def __init__(self, broker: Peer, log: Log, seen: Seen, consumer: PushConsumer) -> None:
        self.broker, self.log, self.seen, self.consumer = broker, log, seen, consumer

    async def ask(self, header: RequestHeader, body: bytes = b"") -> Command:
        """The consumer's answer."""
        (connection,) = self.broker.server.connections
        command = Command(header.code, header=header, body=body)
        answer = await done(connection.call(command, 3_000))
        assert answer.code == 0, answer.remark
        return answer


@pytest_asyncio.fixture
async def stage(cluster: Cluster) -> AsyncIterator[Stage]:
    await cluster.add_namesrv()
    broker, log, seen = await cluster.add_broker("a"), Log(), Seen()
    cluster.topic(TOPIC, "a", queues=1)
    cluster.topic(RETRY, "a", queues=1)
    broker.answers[PULL] = log.pull
    broker.answers[RequestCode.QUERY_CONSUMER_OFFSET] = offset(0)
    client = cluster.client(namespace="shop")
    await client.start()
    consumer = PushConsumer("cg", instance=client, listener=seen)
    consumer.subscribe("T")
    await done(consumer.start())
    await until(lambda: broker.count(PULL) == 2)
    yield Stage(broker, log, seen, consumer)
    await done(consumer.close())


async def test_how_it_fares_is_told_by_the_names_of_the_wire(stage: Stage) -> None:
    answer = await stage.ask(RunningInfoRequest(consumer_group=GROUP, client_id="x"))
    info = RunningInfo.decode(answer.body)
    assert [s.topic for s in info.subscription_set] == [RETRY, TOPIC]
    assert set(info.mq_table) == {QueueKey("a", 0, TOPIC), QueueKey("a", 0, RETRY)}
    assert set(info.status_table) == {TOPIC, RETRY}


async def test_where_it_stands_is_told_by_the_names_of_the_wire(stage: Stage) -> None:
    answer = await stage.ask(ClientStatusRequest(topic=TOPIC, group=GROUP))
    status = ConsumerStatus.decode(answer.body)
    assert status.message_queue_table == {QueueKey("a", 0, TOPIC): 0}


async def test_it_is_put_elsewhere(stage: Stage) -> None:
    stage.log.add(0)
    (connection,) = stage.broker.server.connections
    header = ClientResetOffsetRequest(topic=TOPIC, group=GROUP, timestamp=0, is_force=True)
    body = ResetOffsets(offset_table={QueueKey("a", 0, TOPIC): 7}).encode()
    connection.notify(Command(header.code, header=header, body=body))
    await until(lambda: stage.broker.count(COMMIT))
    assert commits(stage.broker) == {0: 7}


async def test_the_listener_gets_a_message_by_its_own_names(stage: Stage) -> None:
    properties = f"RETRY_TOPIC\x01{TOPIC}\x02".encode()
    answer = await stage.ask(
        ConsumeDirectlyRequest(consumer_group=GROUP, client_id="x", broker_name="a"),
        record(3, topic=RETRY, properties=properties),
    )
    assert ConsumeDirectlyResult.decode(answer.body).consume_result == CR_SUCCESS
    assert [m.topic for m in stage.seen.messages] == ["T"]


async def test_a_transaction_is_checked_by_its_own_names(cluster: Cluster) -> None:
    checked: list[str] = []

    class Listener:
        async def execute_local_transaction(self, message: object, arg: object) -> None: ...

        async def check_local_transaction(self, message: object) -> LocalTransactionState:
            checked.append(message.topic)  # type: ignore[attr-defined]
            return LocalTransactionState.COMMIT

    await cluster.add_namesrv()
    broker = await cluster.add_broker("a")
    cluster.topic(TOPIC, "a", queues=1)
    client = cluster.client(namespace="shop")
    await client.start()
    producer = TransactionProducer("pg", instance=client, listener=Listener())
    await producer.start()
    await done(producer.queues("T"))
    await until(lambda: broker.count(RequestCode.HEART_BEAT))
    (connection,) = broker.server.connections
    header = CheckTransactionStateRequest(
        topic=TOPIC, tran_state_table_offset=1, commit_log_offset=10, msg_id="U",
        transaction_id="U", broker_name="a",
    )  # fmt: skip
    properties = b"UNIQ_KEY\x01U\x02PGROUP\x01shop%pg\x02"
    body = record(1, topic=TOPIC, properties=properties)
    connection.notify(Command(header.code, header=header, body=body))
    await until(lambda: broker.count(RequestCode.END_TRANSACTION))
    end = broker.last(RequestCode.END_TRANSACTION).read(EndTransactionRequest)
    assert (checked, end.producer_group) == (["T"], "shop%pg")
    await done(producer.close())
