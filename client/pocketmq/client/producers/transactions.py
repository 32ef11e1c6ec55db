"""The listener of a transactional producer, its settings and results."""

from __future__ import annotations

from enum import Enum
from typing import Any, Protocol

import msgspec

from pocketmq.client.results import SendResult
from pocketmq.client.settings import NotNegative, Positive
from pocketmq.protocol import flags
from pocketmq.protocol.messages.message import Message, ReceivedMessage


class LocalTransactionState(Enum):
    """The end of the application's own transaction; its value goes to the broker."""

    COMMIT = flags.TRANSACTION_COMMIT
    """The message is to be delivered."""
    ROLLBACK = flags.TRANSACTION_ROLLBACK
    """It is to be dropped."""
    UNKNOWN = 0
    """Not known yet: the broker asks again."""


class TransactionListener(Protocol):
    """The application's side of a transaction (`client/producer/TransactionListener`).

    Each method may be a coroutine function, which runs on the loop, or a plain one, which runs in a
    thread. An exception counts as `UNKNOWN` and is logged, as does any other result.

    The same transaction is known by the message's `unique_key` in both; any producer of the group
    may be asked, also after a restart.
    """

    def execute_local_transaction(self, message: Message, arg: Any) -> Any:
        """Executes the transaction of a message that is stored but not delivered.

        Args:
            message: as it was sent.
            arg: of `send_in_transaction`.

        Returns:
            A `LocalTransactionState`.
        """

    def check_local_transaction(self, message: ReceivedMessage) -> Any:
        """Returns how a transaction ended, of whose end the broker has not heard for a while.

        Returns:
            A `LocalTransactionState`.
        """


class TransactionProducerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a transactional producer, beside `ProducerSettings`.

    Attributes:
        local_transaction_threads: plain `execute_local_transaction` functions that run at once.
        check_concurrency: transactions that are checked at once (checkThreadPoolMaxSize).
        check_request_hold_max: questions of brokers that wait for that; what comes beyond is
            dropped, since brokers ask again (checkRequestHoldMax).
        close_timeout_ms: how long a close waits for transactions and checks that are at work.
    """

    local_transaction_threads: Positive = 20
    check_concurrency: Positive = 20
    check_request_hold_max: NotNegative = 2_000
    close_timeout_ms: NotNegative = 30_000


class TransactionSendResult(SendResult, frozen=True, kw_only=True):
    """Where a transactional message was stored, and how its transaction ended.

    Attributes:
        queue_offset, offset_msg_id: of the half message, not of what a commit stores.
        local_state: as it went to the broker.
    """

    local_state: LocalTransactionState
