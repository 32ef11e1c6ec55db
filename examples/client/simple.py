"""Receives messages when it likes, and acknowledges each by itself."""

import asyncio
import sys

from pocketmq.client import Message, Producer, ReceivedMessage, SimpleConsumer


async def main(namesrv: str = "127.0.0.1:9876") -> None:
    """Handles two messages, and gives one back before it handles it."""
    async with Producer("thumbnails", namesrv) as producer:
        for name in ("cat.png", "dog.png"):
            await producer.send(Message("Pictures", name, tags="new"))

    async with SimpleConsumer("painters", namesrv) as consumer:
        consumer.subscribe("Pictures", "new")
        messages: list[ReceivedMessage] = []
        while len(messages) < 2:
            messages += await consumer.receive(max_messages=16, invisible_ms=30_000)
        first, second = messages
        await consumer.ack(first)
        await consumer.change_invisible_duration(second, 0)
        (again,) = await consumer.receive()
        await consumer.ack(again)
        print("handled:", len(messages), "attempts of the second:", again.reconsume_times + 1)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
