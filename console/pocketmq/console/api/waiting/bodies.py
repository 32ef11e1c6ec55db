"""Bodies about messages that wait."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from pocketmq.console.api.bodies.messages import SCANNED_MAX, TIMEOUT_S_MAX, ScannedQueue, Stop
from pocketmq.console.api.reach import PartialBody
from pocketmq.console.web.bodies import Count, RequestBody, ResponseBody
from pocketmq.protocol.messages.message_json import MessageDocument

SHOWN_MAX = 100
"""Messages of one answer: each is looked up in the index, too."""

Kind = Literal["level", "timer", "half"]


class WaitingQuery(RequestBody):
    """Which messages are wanted.

    Attributes:
        kind: delayed by a ``level`` (retries, too), by a ``timer``, or ``half`` messages of
            transactions.
        cursor: goes on where the answer that gave it as `next` has stopped.
        limit: messages at most.
        scan: messages to look at, at most.
        seconds: time that may be taken.
    """

    kind: Kind = "timer"
    cursor: str | None = None
    limit: Annotated[int, Meta(ge=1, le=SHOWN_MAX)] = 50
    scan: Annotated[int, Meta(ge=1, le=SCANNED_MAX)] = 20_000
    seconds: Annotated[float, Meta(gt=0, le=TIMEOUT_S_MAX)] = 5.0


class WaitingMessage(ResponseBody):
    """A message that waits.

    Attributes:
        message: the record by which it waits; queue and offset are those of the record.
        due_ms: when it is to be delivered; null of half messages.
        level: RocketMQ's delay level; null without.
        checks: how often a broker has asked how the transaction ended.
        producer_group: of the transaction.
        can_be_recalled: whether `DELETE` calls it back.
        is_certain: false of a half message that may have ended in a part of the brokers' log that
            was not read.
    """

    message: MessageDocument
    due_ms: int | None = None
    level: int | None = None
    checks: Count = 0
    producer_group: str | None = None
    can_be_recalled: bool = False
    is_certain: bool = True


class WaitingMessages(PartialBody):
    """Messages that wait, in the order in which they were stored.

    Attributes:
        messages: those that were found.
        scanned: records that were looked at, of all topics.
        stopped: why not more, as of `browse`; the ``limit`` counts recalled and ended ones, too.
        queues: what was looked at, of the brokers' own topic.
        next: give it as `cursor` to go on; null at the end.
        recalled: messages that were found, and left out because somebody has called them back.
    """

    messages: list[WaitingMessage]
    scanned: int
    stopped: Stop
    queues: list[ScannedQueue]
    next: str | None = None
    recalled: int = 0


class Recalled(ResponseBody):
    """A timer message that was called back."""

    recalled: str
