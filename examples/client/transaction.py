"""Sends a message if, and only if, a local transaction succeeds."""

import asyncio
import sys

from pocketmq.client import (
    LocalTransactionState,
    Message,
    ReceivedMessage,
    TransactionProducer,
)


class Orders:
    """Executes orders, and knows afterwards what became of them."""

    def __init__(self) -> None:
        self.saved: set[str] = set()

    async def execute_local_transaction(self, message: Message, arg: int) -> LocalTransactionState:
        """Runs between the half message and its end: this is where the database commits."""
        if arg > 100:
            return LocalTransactionState.ROLLBACK
        self.saved.add(message.keys[0])
        return LocalTransactionState.COMMIT

    async def check_local_transaction(self, message: ReceivedMessage) -> LocalTransactionState:
        """The broker asks when it heard of no end: look it up, do not execute it again."""
        known = message.keys[0] in self.saved
        return LocalTransactionState.COMMIT if known else LocalTransactionState.ROLLBACK


async def main(namesrv: str = "127.0.0.1:9876") -> None:
    """Places two orders; the second one is over the limit."""
    async with TransactionProducer("orders", namesrv, listener=Orders()) as producer:
        for key, amount in (("4711", 20), ("4712", 2_000)):
            message = Message("Placed", b"%d" % amount, keys=key)
            result = await producer.send_in_transaction(message, amount)
            print(key, result.local_state.name)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
