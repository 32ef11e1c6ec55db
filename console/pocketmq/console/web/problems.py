"""Turns errors into problem details (RFC 9457) with cause and remedy."""

from __future__ import annotations

import msgspec

from pocketmq.console.web.operations import Api
from pocketmq.protocol.errors import OperatingError, PocketMQError, ResponseError, UsageError

MEDIA_TYPE = "application/problem+json"


class Problem(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What went wrong (RFC 9457).

    Attributes:
        title: what kind of problem it is.
        status: the HTTP status.
        detail: what went wrong this time.
        remedy: what to do about it.
        code: the response code of a broker that refused.
    """

    title: str
    status: int
    detail: str
    remedy: str
    code: int | None = None


class ProblemError(PocketMQError):
    """A request that is answered with a problem."""

    def __init__(self, status: int, title: str, detail: str, remedy: str) -> None:
        super().__init__(status, title, detail, remedy)
        self.problem = Problem(title=title, status=status, detail=detail, remedy=remedy)

    def __str__(self) -> str:
        return f"{self.problem.detail}; {self.problem.remedy}"


def problem_of(error: PocketMQError, api: Api) -> Problem:
    """Makes the problem for an error of PocketMQ, as an API tells it."""
    if isinstance(error, ProblemError):
        return error.problem
    if isinstance(error, UsageError):
        return Problem(
            title="The request does not fit",
            status=400,
            detail=str(error),
            remedy=f"change what the detail names; see {api.prefix}/openapi.json",
        )
    if isinstance(error, ResponseError):
        return Problem(
            title="A broker refused",
            status=502,
            detail=str(error),
            remedy=api.when_refused,
            code=error.code,
        )
    status = 503 if isinstance(error, OperatingError) else 502
    return Problem(
        title="It could not be done now",
        status=status,
        detail=str(error) or type(error).__name__,
        remedy=api.when_failed,
    )


def not_found(kind: str, name: str, known: str) -> ProblemError:
    """Makes the problem for something that does not exist.

    Args:
        kind: the kind of the missing thing, such as a topic.
        name: the name in the request.
        known: how to list the existing ones.
    """
    return ProblemError(404, f"No such {kind}", f"there is no {kind} {name!r}", f"see {known}")
