"""Sends messages: waiting for each, with a callback, and without an answer."""

import asyncio
import sys

from pocketmq.client import Message, Producer, SendResult
from pocketmq.protocol.errors import PocketMQError


async def main(namesrv: str = "127.0.0.1:9876") -> None:
    """Sends three messages in three ways."""
    answered = asyncio.Event()

    def on_sent(outcome: SendResult | PocketMQError) -> None:
        print("callback:", outcome.status.name if isinstance(outcome, SendResult) else outcome)
        answered.set()

    async with Producer("shop", namesrv) as producer:
        message = Message("Orders", b"a book", tags="new", keys="4711", properties={"amount": "20"})
        result = await producer.send(message)
        print("stored:", result.status.name, "in queue", result.queue.queue_id)

        producer.send_async(Message("Orders", "text is sent as UTF-8"), on_sent)
        await answered.wait()

        await producer.send_oneway(Message("Orders", b"nobody knows whether this arrives"))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
