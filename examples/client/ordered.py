"""Keeps the events of each order in order, while several orders are handled at once."""

import asyncio
import sys

from pocketmq.client import Message, Producer, PushConsumer, ReceivedMessage, by_hash

EVENTS = ("created", "paid", "shipped")


async def main(namesrv: str = "127.0.0.1:9876") -> None:
    """Sends the events of three orders; each order's come one after the other."""
    seen: dict[str, list[str]] = {}
    all_seen = asyncio.Event()

    async def handle(messages: list[ReceivedMessage]) -> None:
        for message in messages:
            order = message.sharding_key or ""
            seen.setdefault(order, []).append(message.body.decode())
        if sum(map(len, seen.values())) == 9:
            all_seen.set()

    consumer = PushConsumer("warehouse", namesrv, listener=handle, orderly=True)
    consumer.subscribe("OrderEvents")
    async with consumer, Producer("shop", namesrv) as producer:
        for event in EVENTS:
            for order in ("4711", "4712", "4713"):
                message = Message("OrderEvents", event, sharding_key=order)
                await producer.send(message, selector=by_hash)
        await all_seen.wait()
    for order, events in sorted(seen.items()):
        print(order, *events)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
