"""The blocking client on any cluster: PocketMQ's own and Apache's."""

from __future__ import annotations

from support.scenarios.parts import FROM_FIRST, HOLD_MS, fresh

from pocketmq.client import LocalTransactionState, Message, ReceivedMessage, SendResult, blocking
from pocketmq.protocol.errors import PocketMQError


def without_an_event_loop(namesrv: str) -> None:
    """The blocking client, used from a plain thread."""
    import threading

    topic = fresh("topic")
    bodies: list[bytes] = []
    complete, called = threading.Event(), threading.Event()
    outcomes: list[SendResult | PocketMQError] = []

    def listener(messages: list[ReceivedMessage]) -> None:
        bodies.extend(m.body for m in messages)
        if len(bodies) == 8:
            complete.set()

    def on_sent(outcome: SendResult | PocketMQError) -> None:
        outcomes.append(outcome)
        called.set()

    with (
        blocking.Admin(namesrv) as admin,
        blocking.Producer(fresh("pg"), namesrv) as producer,
        blocking.PullConsumer(fresh("cg"), namesrv) as puller,
        blocking.PushConsumer(
            fresh("cg"), namesrv, listener=listener, consume_from_where=FROM_FIRST
        ) as pusher,
    ):
        admin.create_topic(topic, 2)
        pusher.subscribe(topic)
        result = producer.send(Message(topic, b"one"))
        producer.send_async(Message(topic, b"two"), on_sent)
        assert called.wait(30)
        assert isinstance(outcomes[0], SendResult)
        producer.send_oneway(Message(topic, b"three"))
        producer.send_batch([Message(topic, b"four")] * 5)
        assert complete.wait(30)
        assert sorted(set(bodies)) == [b"four", b"one", b"three", b"two"]
        assert result.queue in producer.queues(topic)
        assert puller.queues(topic) == sorted(producer.queues(topic))
        queue = result.queue
        assert puller.pull(queue, result.queue_offset, hold_ms=HOLD_MS).messages[0].body == b"one"
        puller.commit(queue, puller.max_offset(queue))
        assert puller.committed_offset(queue) == puller.max_offset(queue)
        assert puller.min_offset(queue) == puller.search_offset(queue, 0) == 0
        assert puller.earliest_store_time_ms(queue) > 0
        assert sorted(pusher.queues) == puller.queues(topic)
        assert {row.queue for row in admin.topic_stats(topic)} == {*puller.queues(topic)}
        pusher.pause()
        assert pusher.is_paused
        pusher.resume()
        pusher.unsubscribe(topic)
        with blocking.PushConsumer(
            fresh("cg"), namesrv, consume_from_where=FROM_FIRST
        ) as iterated_over:
            iterated_over.subscribe(topic)
            first = next(iterated_over)
            iterated_over.ack(first)
            again = next(iterated_over)
            iterated_over.retry(again, delay_level=18)
            assert first.msg_id != again.msg_id
        assert list(iterated_over) == []
        with blocking.TransactionProducer(fresh("pg"), namesrv, listener=PlainLedger()) as sender:
            sent = sender.send_in_transaction(Message(topic, b"in one", tags="COMMIT"), "arg")
            assert sent.local_state is LocalTransactionState.COMMIT
            assert sender.send(Message(topic, b"on its own")).msg_id != sent.msg_id
        admin.delete_topic(topic)


class PlainLedger:
    """A transaction listener of plain functions."""

    def execute_local_transaction(self, message: Message, arg: object) -> LocalTransactionState:
        assert arg == "arg"
        return LocalTransactionState.COMMIT

    def check_local_transaction(self, message: ReceivedMessage) -> LocalTransactionState:
        return LocalTransactionState.COMMIT
