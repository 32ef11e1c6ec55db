"""Fails until messages are given up, and reads the dead letters."""

import asyncio
import sys

from pocketmq.client import (
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
    RetryLater,
)


async def main(namesrv: str = "127.0.0.1:9876") -> None:
    """One message succeeds at the third attempt, another never does."""
    billed = asyncio.Event()

    async def bill(messages: list[ReceivedMessage]) -> RetryLater | None:
        message = messages[0]
        print(message.body.decode(), "attempt", message.reconsume_times + 1)
        if message.body == b"no such customer":
            return RetryLater(delay_level=-1)  # to the dead letters at once
        if message.reconsume_times < 2:
            return RetryLater(delay_level=1)  # again in a second; 0 waits 10 s, 30 s, 1 min, …
        billed.set()
        return None  # handled

    consumer = PushConsumer("debts", namesrv, listener=bill, max_reconsume_times=5)
    consumer.subscribe("Debts")
    async with consumer, Producer("shop", namesrv) as producer:
        await producer.send(Message("Debts", b"slow bank"))
        await producer.send(Message("Debts", b"no such customer"))
        await billed.wait()

    reader = PushConsumer("support", namesrv, consume_from_where="CONSUME_FROM_FIRST_OFFSET")
    reader.subscribe("%DLQ%debts")
    async with reader:
        async for letter in reader:
            reader.ack(letter)
            print("dead:", letter.body.decode())
            break


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
