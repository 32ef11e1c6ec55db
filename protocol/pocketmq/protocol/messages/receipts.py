"""What a pop tells of its messages, and the receipt handles that are made of it (`ExtraInfoUtil`).

An answer tells three things in texts of items with semicolons between: where the read of each queue
began, which offsets of it are in the body, and how often each ordered message was tried. A client
makes a receipt handle of them for each message; acknowledgements carry it back.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from pocketmq.protocol.errors import ContentError

PARTS_MIN = 8
"""Parts of a handle; proxies add a ninth, the physical offset."""

ORDER_REVIVE_QID = 999
"""As the revive queue of a handle: the message was popped in order."""

_LENGTH_MAX = 4_096
"""Letters of a handle; a broker's name is the only part without a bound of its own."""

_INTEGER = re.compile(r"-?[0-9]{1,19}")


class Origin(Enum):
    """Which topic a popped message was read from: the topic itself, or its group's retry topic."""

    TOPIC = "0"
    RETRY_V1 = "1"
    RETRY_V2 = "2"


class QueueOrigin(NamedTuple):
    """A queue that a pop has read."""

    origin: Origin
    queue_id: int


_ORIGINS = {origin.value: origin for origin in Origin}

_HANDLE = re.compile(
    r"(-?[0-9]{1,19}) (-?[0-9]{1,19}) (-?[0-9]{1,19}) (-?[0-9]{1,19}) ([012]) ([^ ]*) "
    r"(-?[0-9]{1,19}) (-?[0-9]{1,19})(?: .*)?",
    re.DOTALL,
)
_NUMBERS = ("start offset", "pop time", "invisible time", "revive queue")


class ReceiptHandle(NamedTuple):
    """Names one delivery of a message (the property POP_CK, the field extraInfo).

    Attributes:
        start_offset: where the read of its queue began.
        pop_time: when it was popped, in milliseconds since the epoch.
        invisible_time: for how many milliseconds it is invisible.
        revive_qid: as the pop's answer told it; `ORDER_REVIVE_QID` for an ordered pop.
        origin: the topic that it was read from.
        broker_name: which has it.
        queue_id, queue_offset: where it is.
    """

    start_offset: int
    pop_time: int
    invisible_time: int
    revive_qid: int
    origin: Origin
    broker_name: str
    queue_id: int
    queue_offset: int

    @property
    def is_ordered(self) -> bool:
        """Whether the message was popped in order."""
        return self.revive_qid == ORDER_REVIVE_QID

    def encode(self) -> str:
        """Writes the handle as RocketMQ's clients do."""
        return (
            f"{self.start_offset} {self.pop_time} {self.invisible_time} {self.revive_qid} "
            f"{self.origin.value} {self.broker_name} {self.queue_id} {self.queue_offset}"
        )

    @classmethod
    def decode(cls, text: str) -> ReceiptHandle:
        """Reads a handle, with a proxy's further part or without.

        Raises:
            ContentError: it is none; the text says which part.
        """
        found = _HANDLE.fullmatch(text)
        if found is not None and len(text) <= _LENGTH_MAX:
            start, popped, invisible, revive, origin, broker, queue, offset = found.groups()
            return cls(
                int(start), int(popped), int(invisible), int(revive), _ORIGINS[origin],
                broker, int(queue), int(offset),
            )  # fmt: skip
        raise cls._fault(text)

    @classmethod
    def names_ordered(cls, text: str) -> bool:
        """Whether a handle is one of an ordered pop, without its other parts.

        Raises:
            ContentError: as `decode`.
        """
        found = _HANDLE.fullmatch(text)
        if found is not None and len(text) <= _LENGTH_MAX:
            return int(found[4]) == ORDER_REVIVE_QID
        raise cls._fault(text)

    @staticmethod
    def _fault(text: str) -> ContentError:
        """What is wrong with a text that is no handle."""
        if len(text) > _LENGTH_MAX:
            return ContentError(
                f"the receipt handle has {len(text)} letters, allowed are {_LENGTH_MAX}"
            )
        parts = text.split(" ")
        if len(parts) < PARTS_MIN:
            return ContentError(
                f"the receipt handle has {len(parts)} parts, it must have {PARTS_MIN}: {text!r}"
            )
        for part, name in zip(parts[:4], _NUMBERS, strict=True):
            _integer(part, name)
        _origin(parts[4])
        _integer(parts[6], "queue id")
        _integer(parts[7], "queue offset")
        return ContentError(f"{text!r} is no receipt handle")


def encode_start_offsets(offsets: Mapping[QueueOrigin, int]) -> str:
    """Writes where the read of each queue began (startOffsetInfo)."""
    return ";".join(
        f"{origin.value} {queue_id} {offset}" for (origin, queue_id), offset in offsets.items()
    )


def decode_start_offsets(text: str) -> dict[QueueOrigin, int]:
    """Reads where the read of each queue began.

    Raises:
        ContentError: it is no such text, or tells of a queue twice.
    """
    return {queue: _integer(rest, "start offset") for queue, rest in _items(text).items()}


def encode_offsets(offsets: Mapping[QueueOrigin, Sequence[int]]) -> str:
    """Writes which offsets of each queue are in the body (msgOffsetInfo)."""
    return ";".join(
        f"{origin.value} {queue_id} {','.join(map(str, found))}"
        for (origin, queue_id), found in offsets.items()
    )


def decode_offsets(text: str) -> dict[QueueOrigin, list[int]]:
    """Reads which offsets of each queue are in the body.

    Raises:
        ContentError: it is no such text, or tells of a queue twice.
    """
    return {
        queue: [_integer(part, "offset") for part in rest.split(",")]
        for queue, rest in _items(text).items()
    }


class OrderedMessage(NamedTuple):
    """A message of an ordered pop; without an offset all of its queue."""

    origin: Origin
    queue_id: int
    offset: int | None


def encode_order_counts(counts: Mapping[OrderedMessage, int]) -> str:
    """Writes how often ordered messages were tried before (orderCountInfo)."""
    return ";".join(
        f"{message.origin.value} {_ordered_place(message)} {count}"
        for message, count in counts.items()
    )


def decode_order_counts(text: str) -> dict[OrderedMessage, int]:
    """Reads how often ordered messages were tried before.

    Raises:
        ContentError: it is no such text.
    """
    out: dict[OrderedMessage, int] = {}
    for item in _split(text):
        origin, place, count = _three(item)
        out[_ordered_message(_origin(origin), place)] = _integer(count, "count")
    return out


def _ordered_place(message: OrderedMessage) -> str:
    if message.offset is None:
        return str(message.queue_id)
    return f"qo{message.queue_id}%{message.offset}"


def _ordered_message(origin: Origin, place: str) -> OrderedMessage:
    if not place.startswith("qo"):
        return OrderedMessage(origin, _integer(place, "queue id"), None)
    queue_id, _, offset = place.removeprefix("qo").partition("%")
    return OrderedMessage(origin, _integer(queue_id, "queue id"), _integer(offset, "offset"))


def _items(text: str) -> dict[QueueOrigin, str]:
    out: dict[QueueOrigin, str] = {}
    for item in _split(text):
        origin, queue_id, rest = _three(item)
        queue = QueueOrigin(_origin(origin), _integer(queue_id, "queue id"))
        if queue in out:
            raise ContentError(f"a pop's answer tells of queue {queue.queue_id} twice: {text!r}")
        out[queue] = rest
    return out


def _split(text: str) -> list[str]:
    return text.split(";") if text else []


def _three(item: str) -> list[str]:
    parts = item.split(" ")
    if len(parts) != 3:
        raise ContentError(f"{item!r} of a pop's answer must have three parts")
    return parts


def _origin(text: str) -> Origin:
    try:
        return Origin(text)
    except ValueError:
        raise ContentError(f"{text!r} names no topic of a pop: it must be 0, 1 or 2") from None


def _integer(text: str, name: str) -> int:
    if _INTEGER.fullmatch(text) is None:
        raise ContentError(f"the {name} {text[:40]!r} of a pop is no number")
    return int(text)
