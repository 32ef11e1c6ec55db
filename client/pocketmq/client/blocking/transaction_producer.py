"""The transactional producer for programs without an event loop."""

from __future__ import annotations

from typing import Any

from pocketmq.client.blocking.producer import Producer
from pocketmq.client.blocking.thread import Blocking
from pocketmq.client.instance.instance import NamesrvList
from pocketmq.client.producers import transaction_producer
from pocketmq.client.producers.transactions import TransactionListener, TransactionSendResult
from pocketmq.protocol.messages.message import Message


class TransactionProducer(Producer):
    """See `pocketmq.client.TransactionProducer`; plain methods of the listener run in threads."""

    _twin: transaction_producer.TransactionProducer

    def __init__(
        self,
        group: str,
        namesrv: NamesrvList = None,
        *,
        listener: TransactionListener,
        **settings: Any,
    ) -> None:
        Blocking.__init__(
            self,
            lambda: transaction_producer.TransactionProducer(
                group, namesrv, listener=listener, **settings
            ),
        )

    def send_in_transaction(
        self, message: Message, arg: Any = None, timeout_ms: float | None = None
    ) -> TransactionSendResult:
        """Sends a message, executes its transaction and tells the broker the end."""
        return self._run(self._twin.send_in_transaction(message, arg, timeout_ms))
