"""Requests about half messages after they were sent: 37, 39, 323."""

from __future__ import annotations

from typing import ClassVar

from msgspec import field

from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.wire.header import RequestHeader


class EndTransactionRequest(RequestHeader, kw_only=True):
    """Commits or rolls back a half message, or says that its fate is unknown; one-way from SDKs.

    Attributes:
        topic: the real topic, or the half topic in the answer to a check.
        tran_state_table_offset: the half message's queue offset.
        commit_log_offset: its physical offset.
        commit_or_rollback: `flags.TRANSACTION_COMMIT` or `TRANSACTION_ROLLBACK`; 0 for unknown.
        from_transaction_check: whether this answers a check (39).
        msg_id: the id that the client gave the message.
        transaction_id: the same, as the broker answered it.
        broker_name: of the broker that is asked.
    """

    code: ClassVar[RequestCode] = RequestCode.END_TRANSACTION

    topic: str | None = None
    producer_group: str
    tran_state_table_offset: int
    commit_log_offset: int
    commit_or_rollback: int
    from_transaction_check: bool | None = None
    msg_id: str
    transaction_id: str | None = None
    broker_name: str | None = field(default=None, name="bname")


class CheckTransactionStateRequest(RequestHeader, kw_only=True):
    """Asks a producer, one-way, for the fate of the half message in the body.

    Attributes:
        topic: the half topic.
        tran_state_table_offset, commit_log_offset: for the 37 that answers this.
        msg_id, transaction_id: the id that the client gave the message.
        offset_msg_id: of the half message.
        broker_name: of the broker that asks.
    """

    code: ClassVar[RequestCode] = RequestCode.CHECK_TRANSACTION_STATE

    topic: str | None = None
    tran_state_table_offset: int
    commit_log_offset: int
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None
    broker_name: str | None = field(default=None, name="bname")


class ResumeCheckHalfMessageRequest(RequestHeader, kw_only=True):
    """Has a broker check a half message again from the start, which it had given up.

    Attributes:
        topic: of the message that the id names.
        msg_id: its offset message id.
    """

    code: ClassVar[RequestCode] = RequestCode.RESUME_CHECK_HALF_MESSAGE

    topic: str | None = None
    msg_id: str | None = None
