"""The transport for kombu: queues, exchanges, acknowledgements, delays, dead letters."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from kombu import Connection, Consumer, Exchange, Queue
from kombu.exceptions import OperationalError

from pocketmq.client import Message
from pocketmq.client.errors import ClosedError
from pocketmq.kombu.names import entity_name
from pocketmq.protocol.messages import properties as props
from pocketmq.testing import Cluster, LocalCluster

Connect = Callable[..., Any]
WAIT_S = 20.0
"""For what must come."""

QUIET_S = 0.3
"""For what must not come."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with LocalCluster(grpc_port=-1) as running:
        yield running


@pytest.fixture
def connect(cluster: Cluster) -> Iterator[Connect]:
    with ExitStack() as stack:

        def connected(**options: Any) -> Any:
            connection = Connection(
                f"pocketmq://{cluster.namesrv}",
                transport="pocketmq.kombu:Transport",
                transport_options=options,
            )
            return stack.enter_context(connection)

        yield connected


@pytest.fixture
def name() -> str:
    return f"q.{uuid4().hex[:8]}"


class Inbox:
    """A consumer that keeps what comes, and leaves settling to the test."""

    def __init__(self, connection: Any, *queues: Any, prefetch: int = 0, **settings: Any) -> None:
        self.connection = connection
        self.messages: list[Any] = []
        self.consumer = Consumer(
            connection.channel(), list(queues), on_message=self.messages.append, **settings
        )
        if prefetch:
            self.consumer.qos(prefetch_count=prefetch)
        self.consumer.consume()

    def next(self) -> Any:
        while not self.messages:
            self.connection.drain_events(timeout=WAIT_S)
        return self.messages.pop(0)

    def assert_quiet(self, timeout_s: float = QUIET_S) -> None:
        with pytest.raises(TimeoutError):
            self.connection.drain_events(timeout=timeout_s)


def send(connection: Any, queue: Any, body: object = "x", **settings: Any) -> None:
    connection.Producer().publish(
        body, exchange="", routing_key=queue.name, declare=[queue], **settings
    )


def test_what_is_acknowledged_does_not_come_again(connect: Connect, name: str) -> None:
    connection, queue = connect(), Queue(name)
    send(connection, queue, {"order": 1}, headers={"origin": "shop"})
    with connect() as other:
        inbox = Inbox(other, queue)
        message = inbox.next()
        assert (message.payload, message.headers) == ({"order": 1}, {"origin": "shop"})
        assert not message.delivery_info["redelivered"]
        message.ack()
    Inbox(connection, queue).assert_quiet()
    assert connection.SimpleQueue(queue).qsize() == 0


def test_bytes_and_text_come_as_they_were_sent(connect: Connect, name: str) -> None:
    connection, queue = connect(), Queue(name)
    send(connection, queue, b"\x00\xff", content_type="application/data", content_encoding="binary")
    send(connection, queue, "naïve", serializer="json")
    inbox = Inbox(connection, queue, accept=["json", "application/data"])
    assert inbox.next().body == b"\x00\xff"
    assert inbox.next().payload == "naïve"


def test_messages_of_a_queue_come_in_order(connect: Connect, name: str) -> None:
    connection, queue = connect(), Queue(name)
    for number in range(50):
        send(connection, queue, number)
    inbox = Inbox(connection, queue)
    assert [inbox.next().payload for _ in range(50)] == list(range(50))


def test_a_requeued_message_comes_again_at_once(connect: Connect, name: str) -> None:
    connection, queue = connect(), Queue(name)
    send(connection, queue)
    inbox = Inbox(connection, queue)
    inbox.next().requeue()
    again = inbox.next()
    assert again.delivery_info["redelivered"]
    again.ack()


def test_a_rejected_message_is_a_dead_letter(connect: Connect, cluster: Cluster, name: str) -> None:
    connection, queue = connect(), Queue(name)
    send(connection, queue)
    inbox = Inbox(connection, queue)
    inbox.next().reject()
    inbox.assert_quiet()
    (letter,) = cluster.dead_letters(entity_name(name))
    assert "rejected by the consumer" in letter.properties[props.LAST_ERROR]


def test_a_message_that_comes_too_often_is_a_dead_letter(
    connect: Connect, cluster: Cluster, name: str
) -> None:
    connection, queue = connect(redeliveries_max=2), Queue(name)
    send(connection, queue)
    inbox = Inbox(connection, queue)
    for _ in range(3):
        inbox.next().requeue()
    inbox.assert_quiet()
    (letter,) = cluster.dead_letters(entity_name(name))
    assert "delivered 3 times" in letter.properties[props.LAST_ERROR]


def test_what_others_send_is_a_dead_letter_and_hinders_nobody(
    connect: Connect, cluster: Cluster, name: str
) -> None:
    connection, queue = connect(), Queue(name)
    queue(connection.channel()).declare()
    with cluster.producer("others") as producer:
        producer.send(Message(entity_name(name), b"no message of kombu"))
    send(connection, queue, "mine")
    assert Inbox(connection, queue).next().payload == "mine"
    (letter,) = cluster.dead_letters(entity_name(name))
    assert letter.body == b"no message of kombu"


def test_a_closed_connection_gives_back_what_it_has(connect: Connect, name: str) -> None:
    connection, queue = connect(), Queue(name)
    send(connection, queue)
    with connect() as other:
        Inbox(other, queue).next()
    message = Inbox(connection, queue).next()
    assert not message.delivery_info["redelivered"]  # nobody has failed with it


def test_a_message_at_work_is_kept_from_others(connect: Connect, name: str) -> None:
    connection, queue = connect(invisible_ms=1_000), Queue(name)
    send(connection, queue)
    inbox = Inbox(connection, queue)
    message = inbox.next()
    other = Inbox(connect(invisible_ms=1_000), queue)
    other.assert_quiet(2.5)
    inbox.consumer.cancel()
    message.requeue()
    other.next().ack()


def test_a_consumer_gets_no_more_than_it_prefetches(connect: Connect, name: str) -> None:
    connection, queue = connect(), Queue(name)
    inbox, other = Inbox(connection, queue, prefetch=1), Inbox(connect(), queue)
    other.consumer.cancel()
    for number in range(2):
        send(connection, queue, number)
    first = inbox.next()
    inbox.assert_quiet()
    other.consumer.consume()
    assert {first.payload, other.next().payload} == {0, 1}


def test_an_acknowledgement_of_another_thread_makes_room(connect: Connect, name: str) -> None:
    connection, queue = connect(), Queue(name)
    for number in range(2):
        send(connection, queue, number)
    inbox = Inbox(connection, queue, prefetch=1)
    thread = threading.Thread(target=inbox.next().ack)
    thread.start()
    assert inbox.next().payload == 1
    thread.join()


def test_no_ack_settles_at_delivery(connect: Connect, name: str) -> None:
    connection, queue = connect(), Queue(name)
    send(connection, queue)
    with connect() as other:
        Inbox(other, queue, no_ack=True).next()
    Inbox(connection, queue).assert_quiet()


def test_direct_and_topic_exchanges_choose_queues(connect: Connect, name: str) -> None:
    connection = connect()
    direct, topic = Exchange(f"{name}.d"), Exchange(f"{name}.t", type="topic")
    queues = [
        Queue(f"{name}.1", direct, routing_key="new"),
        Queue(f"{name}.2", topic, routing_key="order.*"),
    ]
    inbox = Inbox(connection, *queues)
    for exchange, key in [(direct, "new"), (direct, "old"), (topic, "order.new"), (topic, "x")]:
        connection.Producer().publish(key, exchange=exchange, routing_key=key)
    assert {inbox.next().payload, inbox.next().payload} == {"new", "order.new"}
    inbox.assert_quiet()


def test_a_fanout_reaches_the_queues_of_other_connections(connect: Connect, name: str) -> None:
    fanout = Exchange(name, type="fanout")
    sender = connect()
    sender.Producer().publish("before", exchange=fanout, declare=[fanout])
    inboxes = [Inbox(connect(), Queue(f"{name}.{i}", fanout)) for i in range(2)]
    sender.Producer().publish("hello", exchange=fanout)
    assert [inbox.next().payload for inbox in inboxes] == ["hello", "hello"]


def test_an_exchange_of_the_options_is_a_fanout(connect: Connect, name: str) -> None:
    events = Exchange(name, type="topic")
    sender, reader = connect(fanout_exchanges=[name]), connect(fanout_exchanges=[name])
    inbox = Inbox(reader, Queue(f"{name}.1", events, routing_key="#"))
    sender.Producer().publish("seen", exchange=events, routing_key="any", declare=[events])
    assert inbox.next().payload == "seen"


def test_a_reply_finds_the_queue_of_another_connection(connect: Connect, name: str) -> None:
    replies = Exchange(f"reply.{name}")
    inbox = Inbox(connect(), Queue(f"ticket.reply.{name}", replies, routing_key="ticket"))
    connect().Producer().publish("pong", exchange=replies, routing_key="ticket", declare=[replies])
    assert inbox.next().payload == "pong"


def test_higher_priorities_come_first(connect: Connect, name: str) -> None:
    connection, queue = connect(priority_steps=[0, 5]), Queue(name)
    for priority in (0, 9, 4, 5):
        send(connection, queue, priority, priority=priority)
    inbox = Inbox(connection, queue)
    assert [inbox.next().payload for _ in range(4)] == [9, 5, 0, 4]


def test_a_message_with_an_eta_waits_in_the_broker(
    connect: Connect, cluster: Cluster, name: str
) -> None:
    connection, queue = connect(), Queue(name)
    eta = datetime.now(UTC) + timedelta(hours=1)
    inbox = Inbox(connection, queue)
    send(connection, queue, "later", headers={"eta": eta.isoformat()})
    send(connection, queue, "now")
    now = inbox.next()
    assert now.payload == "now"
    now.ack()
    inbox.assert_quiet()
    cluster.clock.advance(hours=2)
    assert inbox.next().payload == "later"


def test_an_expired_message_does_not_come(connect: Connect, name: str) -> None:
    connection, queue = connect(), Queue(name)
    send(connection, queue, "over", expiration=-86_400)
    send(connection, queue, "fresh", expiration=86_400)
    inbox = Inbox(connection, queue)
    assert inbox.next().payload == "fresh"
    inbox.assert_quiet()


def test_a_queue_is_emptied_and_deleted(connect: Connect, cluster: Cluster, name: str) -> None:
    connection, queue = connect(), Queue(name)
    for number in range(40):
        send(connection, queue, number)
    bound = queue(connection.channel())
    assert bound.queue_declare(passive=True)
    assert connection.SimpleQueue(queue).qsize() == 40
    assert bound.purge() == 40
    assert bound.get() is None
    bound.delete()
    with cluster.admin() as admin:
        assert entity_name(name) not in admin.topics()
        assert entity_name(name) not in admin.groups()
    with pytest.raises(connection.channel_errors, match="no queue"):
        bound.queue_declare(passive=True)


def test_a_temporary_queue_ends_with_its_consumer(
    connect: Connect, cluster: Cluster, name: str
) -> None:
    inbox = Inbox(connect(), Queue(name, auto_delete=True))
    with cluster.admin() as admin:
        assert entity_name(name) in admin.topics()
        inbox.consumer.cancel()
        assert entity_name(name) not in admin.topics()


def test_a_single_message_is_got(connect: Connect, name: str) -> None:
    connection, queue = connect(), Queue(name)
    bound = queue(connection.channel())
    send(connection, queue)
    bound.get(no_ack=True)
    assert bound.get() is None


def test_the_console_finds_a_task_by_its_id(connect: Connect, cluster: Cluster, name: str) -> None:
    send(connect(), Queue(name), headers={"id": "task-4711", "task": "shop.pay"})
    (stored,) = cluster.stored(entity_name(name))
    assert (stored.keys, stored.tags) == (("task-4711",), "shop.pay")


def test_without_a_cluster_there_is_no_connection() -> None:
    connection = Connection("pocketmq://127.0.0.1:1", transport="pocketmq.kombu:Transport")
    with pytest.raises(OperationalError, match=r"127\.0\.0\.1:1"):
        connection.ensure_connection(max_retries=1, interval_start=0, timeout=1)


def test_the_secret_key_is_masked() -> None:
    url = "pocketmq://key:secret@127.0.0.1:1"
    connection = Connection(url, transport="pocketmq.kombu:Transport")
    assert connection.as_uri() == "pocketmq://key:**@127.0.0.1:1"
    assert connection.as_uri(include_password=True) == url


def test_a_forked_child_leaves_the_connection_to_its_parent(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    connection, queue = connect(), Queue(name)
    send(connection, queue)
    inbox = Inbox(connection, queue)
    message = inbox.next()
    inherited = connection.transport._link
    with monkeypatch.context() as child:
        child.setattr("pocketmq.kombu.blocking_link.os.getpid", lambda: -1)
        with pytest.raises(ClosedError, match="parent process"):
            send(connection, queue)
        connection.transport.close_connection(connection.connection)
    assert os.getpid() != -1
    assert message.payload == "x"
    Inbox(connect(), queue).assert_quiet()  # the parent still has the message
    inherited.close()


def test_a_namespace_keeps_queues_apart(cluster: Cluster, name: str) -> None:
    url = f"pocketmq://{cluster.namesrv}"
    queue = Queue(name)
    with (
        Connection(f"{url}/shop", transport="pocketmq.kombu:Transport") as shop,
        Connection(url, transport="pocketmq.kombu:Transport") as other,
    ):
        send(shop, queue, "of the shop")
        send(other, queue, "of nobody")
        assert shop.SimpleQueue(queue).qsize() == 1
        fanout = Exchange(f"{name}.all", type="fanout")
        inbox = Inbox(shop, queue, Queue(f"{name}.copy", fanout))
        message = inbox.next()
        assert message.payload == "of the shop"
        message.ack()
        shop.Producer().publish("to all", exchange=fanout.name)
        inbox.next().ack()
        shop.channel().queue_delete(name)
        assert other.SimpleQueue(queue).qsize() == 1
