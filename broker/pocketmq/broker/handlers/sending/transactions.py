"""Ends of transactions, 37 (`EndTransactionProcessor`), and 323 (`AdminBrokerProcessor`)."""

from __future__ import annotations

import logging

import msgspec

from pocketmq.broker.appending.appender import Appender
from pocketmq.broker.appending.stored_message import StoredMessage, read_stored
from pocketmq.broker.config.config import BrokerConfig
from pocketmq.broker.handlers.sending.answers import answer_when_stored
from pocketmq.broker.refusals import unavailable
from pocketmq.broker.store.store import MessageStore
from pocketmq.broker.transactions.half import immunity_ms, with_check_times
from pocketmq.broker.transactions.half_states import COMMITTED, ROLLED_BACK
from pocketmq.broker.transactions.transactions import Transactions
from pocketmq.protocol import flags
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.errors import OperatingError, ResponseError, UsageError, response_error
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.ids import parse_offset_msg_id
from pocketmq.protocol.names import names
from pocketmq.protocol.requests.transactions import (
    EndTransactionRequest,
    ResumeCheckHalfMessageRequest,
)
from pocketmq.protocol.wire.command import Command
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.live import Live
from pocketmq.transport.connection import Connection, Handler

log = logging.getLogger("pocketmq.broker")

_OUTCOMES = {
    flags.TRANSACTION_COMMIT: COMMITTED,
    flags.TRANSACTION_ROLLBACK: ROLLED_BACK,
}


class TransactionSettings(msgspec.Struct, frozen=True):
    """What the ends of transactions depend on.

    Attributes:
        timeout_ms: transactionTimeOut.
    """

    timeout_ms: int

    @classmethod
    def of(cls, config: BrokerConfig) -> TransactionSettings:
        """The part of a broker's settings that the ends of transactions depend on."""
        return cls(timeout_ms=config.transaction_time_out)


class TransactionHandlers:
    """Takes the decisions of producers.

    Args:
        transactions, store, appender: of the broker.
        settings: see there.
    """

    def __init__(
        self,
        transactions: Transactions,
        store: MessageStore,
        clock: Clock,
        appender: Appender,
        settings: Live[TransactionSettings],
    ) -> None:
        self._transactions, self._store, self._appender = transactions, store, appender
        self._settings, self._clock = settings, clock

    def table(self) -> dict[int, Handler]:
        """The handlers by request code."""
        return {
            RequestCode.END_TRANSACTION: self.end,
            RequestCode.RESUME_CHECK_HALF_MESSAGE: self.resume,
        }

    def end(self, command: Command, connection: Connection) -> None:
        """37: answered when the real message, or that there is none, is stored.

        A decision that the producer does not know changes nothing and is not answered.
        """
        request = command.read(EndTransactionRequest)
        if request.commit_or_rollback == flags.TRANSACTION_NOT_TYPE:
            return
        outcome = _OUTCOMES.get(request.commit_or_rollback)
        if outcome is None:
            raise response_error(
                ResponseCode.INVALID_PARAMETER,
                f"commitOrRollback is {request.commit_or_rollback}: it must be "
                f"{flags.TRANSACTION_COMMIT} to commit, {flags.TRANSACTION_ROLLBACK} to roll back, "
                f"or {flags.TRANSACTION_NOT_TYPE} if that is not known",
            )
        half = self._half_message(request)
        self._transactions.end(half, outcome, answer_when_stored(command, connection))

    def _half_message(self, request: EndTransactionRequest) -> StoredMessage:
        """The message that a decision names, having checked that it is its producer's."""
        half = self._read(request.commit_log_offset, names.HALF_TOPIC)
        if half is None:
            raise _wrong("Find prepared transaction message failed")
        if not request.from_transaction_check and self._is_late(half):
            raise response_error(
                ResponseCode.ILLEGAL_OPERATION,
                "the decision comes later than CHECK_IMMUNITY_TIME_IN_SECONDS: wait to be asked",
            )
        if props.value_of(half.text, props.PRODUCER_GROUP) != request.producer_group:
            raise _wrong("The producer group wrong")
        if half.queue_offset != request.tran_state_table_offset:
            raise _wrong("The transaction state table offset wrong")
        if half.physical_offset != request.commit_log_offset:
            raise _wrong("The commit log offset wrong")
        return half

    def _is_late(self, half: StoredMessage) -> bool:
        text = half.text
        if props.value_of(text, props.CHECK_IMMUNITY_TIME_IN_SECONDS) is None:
            return False
        limit_ms = max(immunity_ms(text) or 0, self._settings.now.timeout_ms)
        return self._clock.now_ms() - half.born_timestamp > limit_ms

    def _read(self, offset: int, topic: str) -> StoredMessage | None:
        data = self._store.read_physical(offset) if offset >= 0 else b""
        message = read_stored(data) if data else None
        return message if message is not None and message.topic == topic else None

    def resume(self, command: Command, connection: Connection) -> None:
        """323: producers are asked again about a message that was given up."""
        request = command.read(ResumeCheckHalfMessageRequest)
        try:
            physical_offset = parse_offset_msg_id(request.msg_id or "").physical_offset
        except UsageError as e:
            raise _wrong(str(e)) from e
        message = self._read(physical_offset, names.CHECK_MAX_TIME_TOPIC)
        if message is None:
            raise _wrong(
                f"Put message back to {names.HALF_TOPIC} failed: {names.CHECK_MAX_TIME_TOPIC} "
                f"holds no message {request.msg_id}"
            )
        if self._store.refusal is not None:
            raise unavailable(self._store.refusal)
        half_log = self._transactions.half_queue()
        half = with_check_times(message, 0)
        on_stored = answer_when_stored(command, connection, failure=_resume_failure)
        self._appender.append_message(half_log, half, on_stored)


def _resume_failure(error: OperatingError) -> tuple[int, str]:
    return ResponseCode.SYSTEM_ERROR, f"Put message back to {names.HALF_TOPIC} failed: {error}"


def _wrong(remark: str) -> ResponseError:
    return response_error(ResponseCode.SYSTEM_ERROR, remark)
