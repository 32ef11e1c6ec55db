"""Sends a message that comes later, and calls another one back before it does."""

import asyncio
import sys

from pocketmq.client import Message, Producer, PushConsumer, ReceivedMessage


async def main(namesrv: str = "127.0.0.1:9876") -> None:
    """Waits for a reminder; a second one is called back."""
    came = asyncio.Event()

    async def remind(messages: list[ReceivedMessage]) -> None:
        print("reminded:", messages[0].body.decode())
        came.set()

    consumer = PushConsumer("reminders", namesrv, listener=remind)
    consumer.subscribe("Reminders")
    async with consumer, Producer("shop", namesrv) as producer:
        await producer.send(Message("Reminders", b"pay order 4711", delay_ms=2_000))
        later = await producer.send(Message("Reminders", b"pay order 4712", delay_ms=3_600_000))
        assert later.recall_handle is not None
        await producer.recall("Reminders", later.recall_handle)
        print("called back: order 4712 is paid")
        await came.wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
