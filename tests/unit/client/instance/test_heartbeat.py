"""What brokers hear of a client's groups, and when."""

from __future__ import annotations

from support.peers.client import Cluster, done, silent
from support.peers.transport import until

from pocketmq.client import Producer, PullConsumer
from pocketmq.protocol.bodies.clients import Heartbeat
from pocketmq.protocol.bodies.routes import BrokerData
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.requests.clients import UnregisterClientRequest

BEAT = RequestCode.HEART_BEAT


async def test_new_brokers_are_told_at_once_and_then_every_thirty_seconds(
    cluster: Cluster,
) -> None:
    await cluster.add_namesrv()
    broker = await cluster.add_broker("a")
    cluster.topic("T", "a")
    client = cluster.client()
    await client.start()
    producer = Producer("pg", instance=client)
    await producer.start()
    await done(producer.queues("T"))
    await until(lambda: broker.count(BEAT) == 1)
    await cluster.clock.advance(29)
    assert broker.count(BEAT) == 1
    await cluster.clock.advance(1)
    await until(lambda: broker.count(BEAT) == 2)
    beat = Heartbeat.decode(broker.last(BEAT).body)
    assert beat.client_id == client.client_id
    assert [p.group_name for p in beat.producer_data_set] == ["pg"]
    assert beat.consumer_data_set == []


async def test_slaves_hear_of_consumers_only(cluster: Cluster) -> None:
    await cluster.add_namesrv()
    master = await cluster.add_broker("a")
    slave = await cluster.add_broker("slave-of-a")
    route = cluster.topic("T", "a")
    route.broker_datas = [
        BrokerData(broker_name="a", broker_addrs={0: master.address, 1: slave.address})
    ]
    client = cluster.client()
    await client.start()
    producer = Producer("pg", instance=client)
    await producer.start()
    await done(producer.queues("T"))
    await until(lambda: master.count(BEAT) == 1)
    assert slave.count(BEAT) == 0
    consumer = PullConsumer("cg", instance=client)
    await consumer.start()
    await done(consumer.queues("T"))
    await done(client.heartbeats.send())
    assert slave.count(BEAT) == 1
    beat = Heartbeat.decode(slave.last(BEAT).body)
    (data,) = beat.consumer_data_set
    assert (data.group_name, data.consume_type) == ("cg", "CONSUME_ACTIVELY")
    assert [s.topic for s in data.subscription_data_set] == ["T"]
    await done(consumer.close())
    assert slave.last(RequestCode.UNREGISTER_CLIENT).read(UnregisterClientRequest) == (
        UnregisterClientRequest(client_id=client.client_id, consumer_group="cg")
    )


async def test_without_groups_nobody_is_told(cluster: Cluster) -> None:
    await cluster.add_namesrv()
    broker = await cluster.add_broker("a")
    cluster.topic("T", "a")
    client = cluster.client()
    await client.start()
    await done(client.routes.publish_route("T"))
    await cluster.clock.advance(60)
    assert broker.count(BEAT) == 0


async def test_a_broker_that_does_not_answer_is_dialled_anew(cluster: Cluster) -> None:
    """A peer that vanished without a word would otherwise keep its connection for ever."""
    await cluster.add_namesrv()
    broker = await cluster.add_broker("a")
    other = await cluster.add_broker("b")
    broker.answers[BEAT] = silent
    cluster.topic("T", "a", "b")
    client = cluster.client()
    await client.start()
    producer = Producer("pg", instance=client)
    await producer.start()
    await done(producer.queues("T"))
    await until(lambda: broker.count(BEAT) == 1 and other.count(BEAT) == 1)
    await cluster.clock.advance(3)
    await until(lambda: not broker.server.connections)
    assert len(other.server.connections) == 1
    await cluster.clock.advance(30)
    await until(lambda: broker.count(BEAT) == 2)
