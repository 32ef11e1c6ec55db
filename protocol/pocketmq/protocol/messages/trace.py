"""Message traces: the records that clients write about messages into the trace topic.

RocketMQ's text (`client/trace/TraceDataEncoder`): the fields of a record are separated by 0x01,
each record is closed by 0x02, and one message of the trace topic holds many. A field that is
missing is the word ``null``.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, IntEnum
from typing import ClassVar, TypeAlias

import msgspec

from pocketmq.protocol.errors import ContentError

FIELD_END = "\x01"
RECORD_END = "\x02"
NULL = "null"


class MessageType(IntEnum):
    """The kind of a message that was sent (`common/message/MessageType`)."""

    NORMAL = 0
    TRANSACTION_HALF = 1
    TRANSACTION_COMMIT = 2
    DELAY = 3
    ORDER = 4


class ConsumeReturnType(IntEnum):
    """How a listener ended (`client/consumer/listener/ConsumeReturnType`)."""

    SUCCESS = 0
    TIME_OUT = 1
    """Whatever it said, it took longer than the consume timeout."""
    EXCEPTION = 2
    RETURN_NULL = 3
    """Java's listeners must say something; None is a success here."""
    FAILED = 4


class TransactionState(Enum):
    """How a transaction ended (`client/producer/LocalTransactionState`)."""

    COMMIT_MESSAGE = "COMMIT_MESSAGE"
    ROLLBACK_MESSAGE = "ROLLBACK_MESSAGE"
    UNKNOW = "UNKNOW"


class PubTrace(msgspec.Struct, kw_only=True):
    """The record of a send.

    Attributes:
        time_ms: when the attempt began, milliseconds since the epoch.
        region: the broker's.
        group: the producer group, and `topic`: both without their namespace.
        msg_id: the client's id.
        store_host: the broker, ``host:port``.
        body_length: bytes, before compression.
        cost_ms: how long the attempt took.
        message_type: what kind it was.
        offset_msg_id: its address in the broker's store.
        is_success: whether the status was SEND_OK.
    """

    kind: ClassVar[str] = "Pub"

    time_ms: int
    region: str
    group: str
    topic: str
    msg_id: str
    tags: str | None = None
    keys: str | None = None
    store_host: str = ""
    body_length: int = 0
    cost_ms: int = 0
    message_type: MessageType = MessageType.NORMAL
    offset_msg_id: str | None = None
    is_success: bool = True

    def fields(self) -> tuple[object, ...]:
        """Returns the fields of the record, in their order."""
        return (
            self.time_ms, self.region, self.group, self.topic, self.msg_id, self.tags, self.keys,
            self.store_host, self.body_length, self.cost_ms, int(self.message_type),
            self.offset_msg_id, self.is_success,
        )  # fmt: skip


class SubBeforeTrace(msgspec.Struct, kw_only=True):
    """The record of a message that is given to a listener.

    Attributes:
        request_id: common to all messages of a batch, and to what is told of them afterwards.
        retry_times: how often it came before.
    """

    kind: ClassVar[str] = "SubBefore"

    time_ms: int
    region: str | None
    group: str
    request_id: str
    msg_id: str
    retry_times: int = 0
    keys: str | None = None

    def fields(self) -> tuple[object, ...]:
        """Returns the fields of the record, in their order."""
        return (
            self.time_ms, self.region, self.group, self.request_id, self.msg_id, self.retry_times,
            self.keys,
        )  # fmt: skip


class SubAfterTrace(msgspec.Struct, kw_only=True):
    """The record of a message that a listener has handled.

    Attributes:
        cost_ms: for one message: the batch's time divided by its messages.
        return_type: how the listener ended.
        time_ms, group: old clients leave them out.
    """

    kind: ClassVar[str] = "SubAfter"

    request_id: str
    msg_id: str
    cost_ms: int = 0
    is_success: bool = True
    keys: str | None = None
    return_type: ConsumeReturnType = ConsumeReturnType.SUCCESS
    time_ms: int | None = None
    group: str | None = None

    def fields(self) -> tuple[object, ...]:
        """Returns the fields of the record, in their order."""
        return (
            self.request_id, self.msg_id, self.cost_ms, self.is_success, self.keys,
            int(self.return_type), self.time_ms or 0, self.group,
        )  # fmt: skip


class EndTransactionTrace(msgspec.Struct, kw_only=True):
    """The record of a producer's end of a transaction.

    Attributes:
        transaction_id: the id of the half message.
        state: what it was ended with.
        is_from_check: because the broker asked.
    """

    kind: ClassVar[str] = "EndTransaction"

    time_ms: int
    region: str
    group: str
    topic: str
    msg_id: str
    tags: str | None = None
    keys: str | None = None
    store_host: str = ""
    message_type: MessageType = MessageType.TRANSACTION_COMMIT
    transaction_id: str | None = None
    state: TransactionState
    is_from_check: bool = False

    def fields(self) -> tuple[object, ...]:
        """Returns the fields of the record, in their order."""
        return (
            self.time_ms, self.region, self.group, self.topic, self.msg_id, self.tags, self.keys,
            self.store_host, int(self.message_type), self.transaction_id, self.state.value,
            self.is_from_check,
        )  # fmt: skip


class RecallTrace(msgspec.Struct, kw_only=True):
    """The record of a producer's recall of a timer message."""

    kind: ClassVar[str] = "Recall"

    time_ms: int
    region: str
    group: str
    topic: str
    msg_id: str
    is_success: bool = True

    def fields(self) -> tuple[object, ...]:
        """Returns the fields of the record, in their order."""
        return (
            self.time_ms, self.region, self.group, self.topic, self.msg_id, self.is_success
        )  # fmt: skip


TraceRecord: TypeAlias = (
    PubTrace | SubBeforeTrace | SubAfterTrace | EndTransactionTrace | RecallTrace
)


def encode_trace(record: TraceRecord) -> str:
    """Encodes one record as text."""
    return FIELD_END.join((record.kind, *map(_text, record.fields()))) + RECORD_END


def index_keys(record: TraceRecord) -> list[str]:
    """Returns the keys by which the record can be found: the message's id and business keys."""
    keys = None if isinstance(record, RecallTrace) else record.keys
    return [record.msg_id, *(keys or "").split()]


def decode_trace(text: str) -> list[TraceRecord]:
    """Reads the records in a message of the trace topic; leaves out those of unknown kinds.

    Raises:
        ContentError: a record is cut off, or a field of it cannot be read.
    """
    records: list[TraceRecord] = []
    for line in text.split(RECORD_END):
        kind, *fields = line.split(FIELD_END)
        reader = _READERS.get(kind)
        if reader is None:
            continue
        try:
            records.append(reader(fields))
        except (IndexError, ValueError) as e:
            raise ContentError(
                f"a trace record of the kind {kind} with {len(fields)} fields cannot be read: {e}"
            ) from e
    return records


def _text(value: object) -> str:
    if value is None or value == "":
        # Java's reader drops empty fields at a record's end, and then misses them.
        return NULL
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _given(text: str) -> str | None:
    return None if text in (NULL, "") else text


def _is_true(text: str) -> bool:
    return text.lower() == "true"


def _pub(f: list[str]) -> PubTrace:
    # The oldest clients do not know the offset message id; newer ones may add fields at the end.
    offset_msg_id, success = (None, f[11]) if len(f) == 12 else (_given(f[11]), f[12])
    return PubTrace(
        time_ms=int(f[0]), region=f[1], group=f[2], topic=f[3], msg_id=f[4], tags=_given(f[5]),
        keys=_given(f[6]), store_host=f[7], body_length=int(f[8]), cost_ms=int(f[9]),
        message_type=MessageType(int(f[10])), offset_msg_id=offset_msg_id,
        is_success=_is_true(success),
    )  # fmt: skip


def _sub_before(f: list[str]) -> SubBeforeTrace:
    return SubBeforeTrace(
        time_ms=int(f[0]), region=_given(f[1]), group=f[2], request_id=f[3], msg_id=f[4],
        retry_times=int(f[5]), keys=_given(f[6]),
    )  # fmt: skip


def _sub_after(f: list[str]) -> SubAfterTrace:
    has_time = len(f) >= 8
    return SubAfterTrace(
        request_id=f[0], msg_id=f[1], cost_ms=int(f[2]), is_success=_is_true(f[3]),
        keys=_given(f[4]), return_type=ConsumeReturnType(int(f[5]) if len(f) >= 6 and f[5] else 0),
        time_ms=int(f[6]) if has_time else None, group=f[7] if has_time else None,
    )  # fmt: skip


def _end_transaction(f: list[str]) -> EndTransactionTrace:
    return EndTransactionTrace(
        time_ms=int(f[0]), region=f[1], group=f[2], topic=f[3], msg_id=f[4], tags=_given(f[5]),
        keys=_given(f[6]), store_host=f[7], message_type=MessageType(int(f[8])),
        transaction_id=_given(f[9]), state=TransactionState(f[10]), is_from_check=_is_true(f[11]),
    )  # fmt: skip


def _recall(f: list[str]) -> RecallTrace:
    return RecallTrace(
        time_ms=int(f[0]), region=f[1], group=f[2], topic=f[3], msg_id=f[4],
        is_success=_is_true(f[5]),
    )  # fmt: skip


_READERS: dict[str, Callable[[list[str]], TraceRecord]] = {
    "Pub": _pub,
    "SubBefore": _sub_before,
    "SubAfter": _sub_after,
    "EndTransaction": _end_transaction,
    "Recall": _recall,
}
