"""Plays all scenarios with RocketMQ 5's SDK for Python, and prints one JSON document.

Arguments: endpoints, "tls" or "plain", access key, secret.
"""

import json
import sys
import threading
import time

from grpc import RpcError
from rocketmq import (
    ClientConfiguration,
    ConsumeResult,
    Credentials,
    FilterExpression,
    Message,
    MessageListener,
    Producer,
    PushConsumer,
    SimpleConsumer,
    TransactionChecker,
    TransactionResolution,
)
from rocketmq.grpc_protocol import FilterType
from rocketmq.v5.exception import ClientException

PATIENCE_S = 40
ENDPOINTS, _, ACCESS_KEY, SECRET = [*sys.argv[1:], "", ""][:4]
consumers = []
CONFIGURATION = ClientConfiguration(ENDPOINTS, Credentials(ACCESS_KEY, SECRET))


def message(topic, body, **fields):
    out = Message()
    out.topic, out.body = topic, body.encode()
    for name, value in fields.items():
        setattr(out, name, value)
    return out


def producer(topic, checker=None):
    out = Producer(CONFIGURATION, (topic,), checker)
    out.startup()
    return out


def received(group, topic, count, tag="*", handle=lambda consumer, got: None, kind=FilterType.TAG):
    """Bodies, in order; long ones by their length."""
    expression = FilterExpression(tag, kind)
    consumer = SimpleConsumer(CONFIGURATION, group, {topic: expression}, 5)
    consumer.startup()
    bodies, end_s = [], time.time() + PATIENCE_S
    while len(bodies) < count and time.time() < end_s:
        for one in consumer.receive(16, 30) or []:
            body = one.body.decode()
            handle(consumer, one)
            bodies.append(f"long {len(body)}" if len(body) > 100 else body)
            consumer.ack(one)
    consumer.shutdown()
    return sorted(bodies)


def simple(seen):
    one = message("Normal", "first", tag="A", keys="k1")
    one.add_property("p", "v")
    sender = producer("Normal")
    sender.send(one)
    sender.send(message("Normal", "unwanted", tag="B"))
    sender.send(message("Normal", "x" * 4 * 1024 * 1024, tag="A"))
    sender.shutdown()

    def handle(consumer, got):
        if got.body == b"first":
            seen["properties"], seen["keys"] = dict(got.properties), sorted(got.keys)
            consumer.change_invisible_duration(got, 60)

    seen["simple"] = received("simple", "Normal", 2, "A", handle)


def filters(seen):
    sender = producer("Filtered")
    for number in range(1, 6):
        one = message("Filtered", f"a{number}")
        one.add_property("a", str(number))
        sender.send(one)
    sender.shutdown()
    seen["filtered"] = received(
        "filtered", "Filtered", 2, "a > 3 AND a IS NOT NULL", kind=FilterType.SQL
    )


def batch(seen):
    sender = producer("Batch")
    for number in range(32):
        sender.send(message("Batch", f"m{number}"))
    sender.shutdown()
    consumer = SimpleConsumer(CONFIGURATION, "batch", {"Batch": FilterExpression()}, 5)
    consumer.startup()
    got = consumer.receive(32, 30) or []
    for one in got:
        consumer.ack(one)
    consumer.shutdown()
    seen["batch"] = [one.body.decode() for one in got]


def remoting(seen):
    """A client of remoting has sent the message, compressed."""
    seen["remoting"] = received("remoting", "Remoting", 1)


class Listener(MessageListener):
    def __init__(self, judge, count):
        self.judge, self.count = judge, count
        self.got, self.done = [], threading.Event()

    def consume(self, got):
        attempt = got.delivery_attempt
        self.got.append((got.body.decode(), attempt))
        if len(self.got) >= self.count:
            self.done.set()
        is_good = self.judge(got.body.decode(), attempt)
        return ConsumeResult.SUCCESS if is_good else ConsumeResult.FAILURE


def pushed(topic, group, judge, count, **fields):
    sender = producer(topic)
    for number in range(6 if fields else 5):
        sender.send(message(topic, f"m{number}", **fields))
    sender.shutdown()
    listener = Listener(judge, count)
    consumer = PushConsumer(CONFIGURATION, group, listener, {topic: FilterExpression()})
    consumer.startup()
    listener.done.wait(PATIENCE_S)
    consumers.append(consumer)
    return listener.got


def push(seen):
    def judge(body, attempt):
        return not (body == "m1" or (body == "m0" and attempt == 1))

    # Shown in the end, so that a delivery too many is there.
    seen["push"] = pushed("Push", "push", judge, 7)


def order(seen):
    got = pushed("Ordered", "ordered", lambda *_: True, 6, message_group="g")
    seen["ordered"] = [body for body, _ in got]


def delay(seen):
    sender, due_s = producer("Delayed"), int(time.time()) + 3
    sender.send(message("Delayed", "later", delivery_timestamp=due_s))
    recalled = sender.send(message("Delayed", "never", delivery_timestamp=due_s))
    answer = sender.recall_message("Delayed", recalled.recall_handle)
    seen["recalled"] = recalled.message_id in str(answer)
    seen["delayed"] = received("delayed", "Delayed", 1)
    if time.time() < due_s:
        seen["delayed"].append("early")
    sender.shutdown()


class Checker(TransactionChecker):
    def check(self, half):
        is_orphan = half.body == b"orphan"
        return TransactionResolution.COMMIT if is_orphan else TransactionResolution.ROLLBACK


def transactions(seen):
    sender = producer("Half", Checker())
    for body in ("committed", "rolled back", "orphan"):
        transaction = sender.begin_transaction()
        sender.send(message("Half", body), transaction)
        if body == "committed":
            transaction.commit()
        elif body == "rolled back":
            transaction.rollback()
    seen["transactions"] = received("half", "Half", 2)
    sender.shutdown()


def restart(seen):
    """Goes on by itself after its broker was gone; a line of standard input tells that it was."""
    sender = producer("Normal")
    sender.send(message("Normal", "before"))
    consumer = SimpleConsumer(CONFIGURATION, "restart", {"Normal": FilterExpression()}, 5)
    consumer.startup()
    bodies, end_s = [], time.time() + PATIENCE_S
    is_sent = False
    while "after" not in bodies and time.time() < end_s:
        try:
            if "before" in bodies and not is_sent:
                sys.stdout.write("ready\n")
                sys.stdout.flush()
                sys.stdin.readline()
                sender.send(message("Normal", "after"))
                is_sent = True
            for one in consumer.receive(16, 30) or []:
                bodies.append(one.body.decode())
                consumer.ack(one)
        except (ClientException, RpcError) as e:  # while the broker is not back
            sys.stderr.write(f"{e}\n")
    seen["restart"] = sorted(set(bodies))
    consumer.shutdown()
    sender.shutdown()


def main():
    seen = {}
    if "restart" in sys.argv:
        restart(seen)
        sys.stdout.write(json.dumps(seen) + "\n")
        return
    for scenario in (simple, filters, batch, remoting, push, order, delay, transactions):
        scenario(seen)
    for consumer in consumers:
        consumer.shutdown()
    seen["push"] = sorted(f"{body}/{attempt}" for body, attempt in seen["push"])
    sys.stdout.write(json.dumps(seen) + "\n")


main()
