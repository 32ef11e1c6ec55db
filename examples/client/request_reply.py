"""Asks by a message and waits for the answer."""

import asyncio
import sys

from pocketmq.client import Message, Producer, PushConsumer, ReceivedMessage, reply_message

PRICES = {b"apple": b"3.20", b"pear": b"2.80"}


async def main(namesrv: str = "127.0.0.1:9876") -> None:
    """A consumer that knows prices answers who asks for one."""
    async with Producer("asking", namesrv) as asking, Producer("answering", namesrv) as answering:

        async def answer(messages: list[ReceivedMessage]) -> None:
            for request in messages:
                await answering.send(reply_message(request, PRICES[request.body]))

        consumer = PushConsumer("prices", namesrv, listener=answer)
        consumer.subscribe("PriceRequests")
        async with consumer:
            reply = await asking.request(Message("PriceRequests", b"apple"), timeout_ms=30_000)
            print("apple:", reply.body.decode())


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
