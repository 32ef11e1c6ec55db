"""Looks on: hooks that carry a request's id along, and logs with fields."""

import asyncio
import logging
import sys
from contextvars import ContextVar

from pocketmq.client import (
    ConsumeHooks,
    ConsumeMessageContext,
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
    SendHooks,
    SendMessageContext,
)

request_id: ContextVar[str] = ContextVar("request_id", default="none")


def stamp(context: SendMessageContext) -> None:
    """Called before each attempt to send: properties may still be added."""
    for message in context.messages:
        message.properties["request-id"] = request_id.get()


def note(context: ConsumeMessageContext) -> None:
    """Called when a batch was handled, or was not."""
    ids = [message.properties.get("request-id") for message in context.messages]
    print("handled" if context.success else "failed", *ids)


async def main(namesrv: str = "127.0.0.1:9876") -> None:
    """Sends within a request, and sees its id where the message is handled."""
    logging.basicConfig(level="WARNING", format="%(levelname)s %(name)s %(message)s")
    done = asyncio.Event()

    async def handle(messages: list[ReceivedMessage]) -> None:
        done.set()

    consumer = PushConsumer("watched", namesrv, listener=handle, hooks=ConsumeHooks(after=[note]))
    consumer.subscribe("Watched")
    async with consumer, Producer("shop", namesrv, hooks=SendHooks(before=[stamp])) as producer:
        request_id.set("r-1")
        await producer.send(Message("Watched", b"x"))
        await done.wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
