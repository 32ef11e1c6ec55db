"""The client for programs without an event loop: the same names, without ``await``.

::

    from pocketmq.client import Message
    from pocketmq.client.blocking import Producer

    with Producer("orders", "127.0.0.1:9876") as producer:
        producer.send(Message("Orders", b"hello"))

Each object runs its asynchronous twin on the loop of one background thread that they all share. It
may be used by many threads at once. Listeners and callbacks of `send_async` run
in other threads than the caller's.
"""

from pocketmq.client.blocking.clients import (
    Admin,
    LitePullConsumer,
    Producer,
    PullConsumer,
    PushConsumer,
    SimpleConsumer,
    TransactionProducer,
)

__all__ = [
    "Admin",
    "LitePullConsumer",
    "Producer",
    "PullConsumer",
    "PushConsumer",
    "SimpleConsumer",
    "TransactionProducer",
]
