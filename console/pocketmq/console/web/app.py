"""The ASGI application of an API: reads requests, carries them out, answers errors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any
from urllib.parse import unquote

import msgspec
from msgspec import Struct
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from pocketmq.console.web.callers import CALLER, caller_of
from pocketmq.console.web.gate import Gate, body_of
from pocketmq.console.web.openapi import document, may_be_left_out
from pocketmq.console.web.operations import Api, Call, Operation
from pocketmq.console.web.problems import MEDIA_TYPE, Problem, problem_of
from pocketmq.console.web.streams import Stream, StreamResponse
from pocketmq.protocol.errors import NoPermissionError, PocketMQError, UsageError

JSON = "application/json"

CHALLENGE = {"WWW-Authenticate": 'Basic realm="PocketMQ", charset="UTF-8"'}

REASON_HEADER = "PocketMQ-Reason"
"""The header with the reason for a change, which goes to the audit."""

REASON_MAX = 200
"""Characters of a reason."""

Endpoint = Callable[[Request], Awaitable[Response]]


def api_app(
    operations: Iterable[Operation], gate: Gate, api: Api, further: Iterable[BaseRoute] = ()
) -> Starlette:
    """Makes the application.

    Args:
        operations: the operations to serve.
        gate: decides which callers are served.
        api: what the API says of itself.
        further: what is served beside the API.
    """
    listed = list(operations)
    described = msgspec.json.encode(document(listed, api))
    answers = _Failures(api)

    async def openapi(request: Request) -> Response:
        gate.check(request)
        return Response(described, media_type=JSON)

    return Starlette(
        routes=[
            Route(f"{api.prefix}/openapi.json", openapi, methods=["GET"]),
            *(
                Route(one.path, _endpoint(one, gate, api), methods=[one.method], name=one.name)
                for one in listed
            ),
            *further,
        ],
        exception_handlers={
            PocketMQError: answers.refused,
            HTTPException: answers.no_such_path,
            Exception: answers.own_mistake,
        },
    )


def _endpoint(operation: Operation, gate: Gate, api: Api) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        gate.check(request)
        call = Call(
            path=request.path_params,
            query=query_of(operation.query, request),
            body=_body(operation, await body_of(request)),
            caller=caller_of(request) if api.has_users else None,
            reason=reason_of(request),
        )
        answer = await operation.carry_out(call)
        if isinstance(answer, Stream):
            return StreamResponse(answer, operation.status, operation.media)
        return Response(msgspec.json.encode(answer), operation.status, media_type=JSON)

    return endpoint


def query_of(kind: type[Struct] | None, request: Request, *, is_form: bool = False) -> Any:
    """Reads the query parameters of a request.

    Args:
        kind: their type; None if there are none.
        request: the request.
        is_form: leave out what is empty, which forms send for each field that nobody filled in.

    Raises:
        UsageError: a parameter does not exist or does not fit.
    """
    given = {name: value for name, value in request.query_params.items() if value or not is_form}
    if kind is None:
        if given:
            path = request.url.path
            raise UsageError(f"{path} takes no parameters, and was given {', '.join(given)}")
        return None
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as e:
        fields = ", ".join(kind.__struct_encode_fields__)
        raise UsageError(f"a parameter does not fit: {e}; there are: {fields}") from e


def reason_of(request: Request) -> str | None:
    """Reads why something is changed: the header ``PocketMQ-Reason``, percent-encoded if need be.

    Raises:
        UsageError: the reason is too long.
    """
    given = request.headers.get(REASON_HEADER)
    if given is None:
        return None
    reason = unquote(given)
    if len(reason) > REASON_MAX:
        raise UsageError(f"the reason has {len(reason)} characters, allowed are {REASON_MAX}")
    return reason


def _body(operation: Operation, body: bytes) -> Any:
    """Reads the body of a request.

    Raises:
        UsageError: the body is no JSON, or does not fit.
    """
    if operation.body is None:
        if body.strip() not in (b"", b"{}"):
            raise UsageError(f"{operation.method} {operation.path} takes no body")
        return None
    if not body and may_be_left_out(operation.body):
        body = b"{}"
    try:
        return msgspec.json.decode(body, type=operation.body)
    except msgspec.DecodeError as e:
        raise UsageError(f"the body does not fit: {e}") from e


class _Failures:
    """Answers errors with problems."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def refused(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, PocketMQError)
        problem = problem_for(request, error, self._api)
        return _response(problem, headers_of(problem))

    async def no_such_path(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        problem = Problem(
            title=str(error.detail),
            status=error.status_code,
            detail=f"there is no {request.method} {request.url.path}",
            remedy=f"see {self._api.prefix}/openapi.json for all paths and methods",
        )
        return _response(problem, error.headers)

    async def own_mistake(self, _: Request, error: Exception) -> Response:
        """Answers an unexpected error with 500; the server logs the error with its trace."""
        problem = Problem(
            title="A mistake of PocketMQ",
            status=500,
            detail=f"{type(error).__name__}: {error}",
            remedy=self._api.when_mistaken,
        )
        return _response(problem)


def problem_for(request: Request, error: PocketMQError, api: Api) -> Problem:
    """Makes the problem for an error: where there are users, 401 or 403 for what is not allowed."""
    if not (api.has_users and isinstance(error, NoPermissionError)):
        return problem_of(error, api)
    if "authorization" in request.headers or CALLER in request.scope:
        return Problem(
            title="The user may not do this",
            status=403,
            detail=str(error),
            remedy="check name and password; `pocketmq acl explain` tells which policy decides",
            code=error.code,
        )
    return Problem(
        title="A user is needed",
        status=401,
        detail=str(error),
        remedy="name a user of the cluster and the password, by HTTP's Basic scheme",
        code=error.code,
    )


def headers_of(problem: Problem) -> dict[str, str]:
    """The headers of an answer with a problem."""
    return CHALLENGE if problem.status == 401 else {}


def _response(problem: Problem, headers: Any = None) -> Response:
    content = msgspec.json.encode(problem)
    return Response(content, problem.status, headers, media_type=MEDIA_TYPE)
