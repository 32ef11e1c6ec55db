"""Consumes with a listener, and once more as an iteration."""

import asyncio
import sys

from pocketmq.client import Message, Producer, PushConsumer, ReceivedMessage

FIRST = "CONSUME_FROM_FIRST_OFFSET"


async def with_listener(namesrv: str) -> None:
    """Batches come to a function; what it returns normally from was handled."""
    enough = asyncio.Event()
    bodies: list[str] = []

    async def handle(messages: list[ReceivedMessage]) -> None:
        bodies.extend(message.body.decode() for message in messages)
        if len(bodies) >= 3:
            enough.set()

    consumer = PushConsumer("billing", namesrv, listener=handle, consume_from_where=FIRST)
    consumer.subscribe("Bills")
    async with consumer:
        await enough.wait()
    print("listener:", *sorted(bodies))


async def as_iteration(namesrv: str) -> None:
    """Messages are taken one by one; each is acknowledged, or given back with `retry`."""
    bodies: list[str] = []
    consumer = PushConsumer("archive", namesrv, consume_from_where=FIRST)
    consumer.subscribe("Bills")
    async with consumer:
        async for message in consumer:
            bodies.append(message.body.decode())
            consumer.ack(message)
            if len(bodies) >= 3:
                break
    print("iteration:", *sorted(bodies))


async def main(namesrv: str = "127.0.0.1:9876") -> None:
    """Two groups get the same messages, each in its own way."""
    async with Producer("shop", namesrv) as producer:
        for number in range(3):
            await producer.send(Message("Bills", f"bill-{number}"))
    await with_listener(namesrv)
    await as_iteration(namesrv)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
