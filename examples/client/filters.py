"""Takes only what it wants of a topic: by tag, and by properties."""

import asyncio
import sys

from pocketmq.client import Message, MessageSelector, Producer, PushConsumer
from pocketmq.client.message_selector import Expression

ORDERS = [("new", 20, "eu"), ("new", 200, "eu"), ("changed", 300, "us")]


async def take(namesrv: str, group: str, expression: Expression, count: int) -> list[str]:
    """The first messages that an expression lets through; all members of a group use the same."""
    consumer = PushConsumer(group, namesrv, consume_from_where="CONSUME_FROM_FIRST_OFFSET")
    consumer.subscribe("Sales", expression)
    bodies: list[str] = []
    async with consumer:
        async for message in consumer:
            consumer.ack(message)
            bodies.append(message.body.decode())
            if len(bodies) == count:
                break
    return sorted(bodies)


async def main(namesrv: str = "127.0.0.1:9876") -> None:
    """Three orders, looked at by two groups."""
    async with Producer("shop", namesrv) as producer:
        for tag, amount, region in ORDERS:
            given = {"amount": str(amount), "region": region}
            await producer.send(Message("Sales", f"{region} {amount}", tags=tag, properties=given))

    print("by tag:", await take(namesrv, "by_tag", "new || cancelled", 2))
    large = MessageSelector.by_sql("amount > 100 AND region = 'eu'")
    print("by properties:", await take(namesrv, "by_sql", large, 1))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
