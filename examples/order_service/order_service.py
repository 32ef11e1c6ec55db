"""A small order service: what it tells others, and what it does when it is told something."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

from pocketmq.client import (
    ConsumeResult,
    LocalTransactionState,
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
    TransactionProducer,
    by_hash,
)

EVENTS = "OrderEvents"
REMINDERS = "Reminders"
REMIND_AFTER_MS = 2 * 60 * 60 * 1000


class Stock:
    """What there is to sell; it remembers for which orders something was taken."""

    def __init__(self, **pieces: int) -> None:
        self.pieces = pieces
        self.taken: dict[str, str] = {}

    def take(self, order_id: str, article: str) -> bool:
        """Takes a piece for an order; False if there is none."""
        if self.pieces.get(article, 0) == 0:
            return False
        self.pieces[article] -= 1
        self.taken[order_id] = article
        return True


class OrderDesk:
    """Takes orders: an order is announced if, and only if, its article could be taken.

    Args:
        stock: what there is.
        settings: of the clients: namesrv, namespace, ….
    """

    def __init__(self, stock: Stock, **settings: Any) -> None:
        self._stock = stock
        self._orders = TransactionProducer("order-desk", listener=self, **settings)
        self._events = Producer("order-events", **settings)

    async def __aenter__(self) -> OrderDesk:
        await self._orders.start()
        await self._events.start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._orders.close()
        await self._events.close()

    async def order(self, order_id: str, article: str) -> None:
        """Takes an order, and plans its reminder."""
        body = json.dumps({"order": order_id, "event": "ordered", "article": article}).encode()
        await self._orders.send_in_transaction(Message(EVENTS, body, keys=order_id), article)
        reminder = Message(REMINDERS, order_id.encode(), delay_ms=REMIND_AFTER_MS)
        await self._events.send(reminder)

    async def tell(self, order_id: str, event: str) -> None:
        """Tells of something that happened to an order, behind all before it."""
        body = json.dumps({"order": order_id, "event": event}).encode()
        message = Message(EVENTS, body, keys=order_id)
        await self._events.send(message, selector=by_hash, arg=order_id)

    async def execute_local_transaction(
        self, message: Message, article: str
    ) -> LocalTransactionState:
        """Takes the article; the order is announced if there is one."""
        is_taken = self._stock.take(message.keys[0], article)
        return LocalTransactionState.COMMIT if is_taken else LocalTransactionState.ROLLBACK

    async def check_local_transaction(self, message: ReceivedMessage) -> LocalTransactionState:
        """Says after a crash or a lost answer what became of an order."""
        is_taken = message.keys[0] in self._stock.taken
        return LocalTransactionState.COMMIT if is_taken else LocalTransactionState.ROLLBACK


class History:
    """What has happened to each order, in order.

    Args:
        settings: of the client.
    """

    def __init__(self, **settings: Any) -> None:
        self.of: dict[str, list[str]] = defaultdict(list)
        self.consumer = PushConsumer("history", listener=self._note, orderly=True, **settings)

    async def _note(self, messages: list[ReceivedMessage]) -> None:
        for message in messages:
            event = json.loads(message.body)
            self.of[event["order"]].append(event["event"])


class Billing:
    """Writes bills; an article without a price comes again until it is given up.

    Args:
        prices: by article.
        settings: of the client.
    """

    def __init__(self, prices: dict[str, int], **settings: Any) -> None:
        self.prices, self.bills = prices, dict[str, int]()
        self.consumer = PushConsumer("billing", listener=self._bill, **settings)

    async def _bill(self, messages: list[ReceivedMessage]) -> ConsumeResult:
        for message in messages:
            event = json.loads(message.body)
            if event["event"] != "ordered":
                continue
            if event["article"] not in self.prices:
                return ConsumeResult.RETRY
            self.bills[event["order"]] = self.prices[event["article"]]
        return ConsumeResult.SUCCESS
