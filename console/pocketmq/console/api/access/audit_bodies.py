"""Bodies about the audit."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, field

from pocketmq.console.web.bodies import RequestBody, ResponseBody

Outcome = Literal["done", "failed", "refused"]
Stop = Literal["end", "limit", "scan", "time"]


class AuditQuery(RequestBody):
    """Which records of the audit are wanted; the newest come first.

    Attributes:
        user: only of this user, or of this person at a login.
        action: only of requests with this in their names, such as ``TOPIC``, or of this code.
        resource: only with this text in what was changed.
        outcome: only what was ``done``, has ``failed``, or was ``refused``.
        limit: of records.
        scan: records that are looked at.
        seconds: after which the search stops.
        cursor: where to go on: `next` of the answer before.
    """

    user: str | None = None
    action: str | None = None
    resource: str | None = None
    outcome: Outcome | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100
    scan: Annotated[int, Meta(ge=1, le=1_000_000)] = 20_000
    seconds: Annotated[float, Meta(gt=0, le=60)] = 5.0
    cursor: str | None = None


class Claimed(ResponseBody):
    """For whom a program has asked, as the program says; nothing proves that.

    Attributes:
        person: who has logged in to the program.
        address: from where.
        reason: why.
    """

    person: str = ""
    address: str = ""
    reason: str = ""


class AuditRecord(ResponseBody):
    """A change, or a refusal.

    Attributes:
        broker, offset: where the record is.
        time_ms: when, by the clock of the server.
        server: the server that was asked.
        event: ``changed`` or ``refused``.
        user: who has signed the request.
        is_proven: of a refusal: whether the signature was right.
        address: where the request came from.
        code, request: the code of the request, and its name.
        result: the response code; 0 if it was done.
        reason: why it was not done.
        claimed: for whom a program has asked, as it says.
        fields: of the request.
        before, after: what the server had kept, and keeps now.
        left_out: so many further refusals of the kind have no record of their own.
    """

    broker: str = ""
    offset: int = 0
    time_ms: int = 0
    server: str = ""
    event: str = ""
    user: str = ""
    is_proven: bool | None = None
    address: str = ""
    code: int = 0
    request: str | None = None
    result: int | None = None
    reason: str | None = None
    claimed: Claimed | None = None
    fields: dict[str, Any] = field(default_factory=dict)
    before: Any = None
    after: Any = None
    left_out: int = 0

    @property
    def outcome(self) -> Outcome:
        """What has become of the request."""
        if self.event == "refused":
            return "refused"
        return "failed" if self.result else "done"


class AuditSource(ResponseBody):
    """Where a broker keeps its audit.

    Attributes:
        topic: of the records; null if the broker has none (`auditTopic`).
        problem: why the broker's records cannot be read; null if they can.
    """

    broker: str
    topic: str | None = None
    problem: str | None = None


class AuditRecords(ResponseBody):
    """Records of the audit, the newest first.

    Attributes:
        scanned: how many were looked at.
        unreadable: how many of these are no records: others have sent them to the topic.
        stopped: why there are not more: the ``end``, or the ``limit`` of records, of those to look
            at (``scan``) or of the ``time``.
        sources: where they are from.
        next: give it as `cursor` for those before; null at the end.
    """

    records: list[AuditRecord]
    scanned: int
    unreadable: int
    stopped: Stop
    sources: list[AuditSource]
    next: str | None = None
