"""Handlers with FastStream's validation and dependencies, on PocketMQ's consumers."""

import asyncio
import json
import logging
import sys
from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import Annotated, Any

from fast_depends.exceptions import ValidationError
from faststream import Depends, apply_types
from pydantic import BaseModel

from pocketmq.client import Message, Producer, PushConsumer, ReceivedMessage, RetryLater

log = logging.getLogger("orders")


def listener_of(
    handler: Callable[..., Awaitable[BaseModel | None]], producer: Producer, replies: str
) -> Callable[[list[ReceivedMessage]], Awaitable[RetryLater | None]]:
    """Makes a consumer's listener of a typed function.

    Args:
        handler: gets the body as its first argument, of its type, and dependencies.
        producer: sends what the handler returns.
        replies: the topic for that.
    """
    handle: Any = apply_types(handler, cast_result=False)

    async def listener(messages: list[ReceivedMessage]) -> RetryLater | None:
        (message,) = messages  # consume_message_batch_max_size is 1
        try:
            result = await handle(json.loads(message.body))
        except (json.JSONDecodeError, UnicodeDecodeError, ValidationError) as e:
            log.warning("message %s is a dead letter: %s", message.msg_id, e)
            return RetryLater(delay_level=-1)  # it gets no better: to the dead letters at once
        if result is not None:
            await producer.send(Message(replies, result.model_dump_json(), keys=message.keys))
        return None  # acknowledged; what the handler raises makes the message come again

    return listener


class Order(BaseModel):
    """What comes."""

    number: int
    price: Decimal


class Receipt(BaseModel):
    """What goes."""

    number: int
    total: Decimal


def tax() -> Decimal:
    """A dependency; a database session would be one, too."""
    return Decimal("0.19")


async def bill(order: Order, rate: Annotated[Decimal, Depends(tax)]) -> Receipt:
    """Bills an order."""
    print("billing", order.number)
    return Receipt(number=order.number, total=round(order.price * (1 + rate), 2))


async def main(namesrv: str = "127.0.0.1:9876") -> None:
    """Two orders, of which one is none, and the receipt of the other."""
    from_the_first: dict[str, Any] = {"consume_from_where": "CONSUME_FROM_FIRST_OFFSET"}
    async with Producer("billing", namesrv) as producer:
        consumer = PushConsumer(
            "billing",
            namesrv,
            listener=listener_of(bill, producer, "Receipts"),
            mode="pop",  # there may be more processes than queues, and a slow one holds up nobody
            **from_the_first,
        )
        consumer.subscribe("Orders")
        async with consumer:
            await producer.send(Message("Orders", '{"number": "many"}', keys="4712"))
            await producer.send(
                Message("Orders", '{"number": 4711, "price": "10.00"}', keys="4711")
            )
            reader = PushConsumer("shop", namesrv, **from_the_first)
            reader.subscribe("Receipts")
            async with reader:
                async for receipt in reader:
                    print("receipt", *receipt.keys, receipt.body.decode())
                    reader.ack(receipt)
                    break


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
