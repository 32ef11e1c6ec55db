"""The same without asyncio: for scripts, threads and frameworks that wait."""

import queue
import sys

from pocketmq.client import Message, ReceivedMessage
from pocketmq.client.blocking import LitePullConsumer, Producer, PushConsumer


def main(namesrv: str = "127.0.0.1:9876") -> None:
    """Sends, has a listener called in a thread, and polls."""
    received: queue.Queue[str] = queue.Queue()

    def handle(messages: list[ReceivedMessage]) -> None:
        for message in messages:
            received.put(message.body.decode())

    first = "CONSUME_FROM_FIRST_OFFSET"
    consumer = PushConsumer("letters", namesrv, listener=handle, consume_from_where=first)
    consumer.subscribe("Letters")
    with Producer("shop", namesrv) as producer, consumer:
        print(producer.send(Message("Letters", b"dear customer")).status.name)
        print("listener:", received.get(timeout=30))

    with LitePullConsumer("copies", namesrv, consume_from_where=first) as poller:
        poller.subscribe("Letters")
        print("polled:", poller.poll(30_000)[0].body.decode())


if __name__ == "__main__":
    main(*sys.argv[1:])
