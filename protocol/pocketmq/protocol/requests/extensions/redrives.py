"""Requests about dead letters and their redrives (PocketMQ's own): 31040 to 31045."""

from __future__ import annotations

from typing import ClassVar

from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.wire.header import RequestHeader


class PlanRedriveRequest(RequestHeader, kw_only=True):
    """Asks what an order would do; the body is a `RedriveOrder`, the answer's a `RedrivePlan`.

    Attributes:
        group: the group whose dead letters are meant.
        topic: the topic that the order names as the target, if the order names one.
        samples: so many of the selected dead letters the plan shows, a hundred at the most.
    """

    code: ClassVar[RequestCode] = RequestCode.PLAN_REDRIVE

    group: str
    topic: str | None = None
    samples: int = 3


class StartRedriveRequest(RequestHeader, kw_only=True):
    """Starts what was planned; the body is a `RedriveStart`, the answer's a `Redrive`.

    Attributes:
        group, topic: as in `PlanRedriveRequest`.
    """

    code: ClassVar[RequestCode] = RequestCode.START_REDRIVE

    group: str
    topic: str | None = None


class ChangeRedriveRequest(RequestHeader, kw_only=True):
    """Pauses, resumes or cancels a redrive; the answer's body is a `Redrive`.

    Attributes:
        group: whose redrive it is.
        redrive_id: its name.
        change: a `RedriveChange`.
        reason: why, for the audit.
    """

    code: ClassVar[RequestCode] = RequestCode.CHANGE_REDRIVE

    group: str
    redrive_id: str
    change: str
    reason: str | None = None


class ListRedrivesRequest(RequestHeader, kw_only=True):
    """Asks for the redrives of a group; the answer's body is a `RedriveList`."""

    code: ClassVar[RequestCode] = RequestCode.LIST_REDRIVES

    group: str


class RedriveResultsRequest(RequestHeader, kw_only=True):
    """Asks for results of a redrive; the answer's body is a `ResultPage`.

    Attributes:
        group: whose redrive it is.
        redrive_id: its name.
        begin: where the page begins, as the page before says; -1 for the first.
    """

    code: ClassVar[RequestCode] = RequestCode.REDRIVE_RESULTS

    group: str
    redrive_id: str
    begin: int = -1


class DeadLetterStatesRequest(RequestHeader, kw_only=True):
    """Asks what became of dead letters; the answer's body is a `LetterTable`.

    Attributes:
        group: whose dead letters; None for those of all groups.
        queue_id, offset, count: with a count, what became of each of these.
    """

    code: ClassVar[RequestCode] = RequestCode.DEAD_LETTER_STATES

    group: str | None = None
    queue_id: int = 0
    offset: int = 0
    count: int = 0
