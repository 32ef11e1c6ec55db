"""The ASGI application of an API: reads requests, carries them out, answers errors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pocketmq.console.web.callers import caller_of
from pocketmq.console.web.gate import Gate, body_of
from pocketmq.console.web.openapi import document, may_be_left_out
from pocketmq.console.web.operations import Api, Call, Operation
from pocketmq.console.web.problems import MEDIA_TYPE, Problem, problem_of
from pocketmq.protocol.errors import NoPermissionError, PocketMQError, UsageError

JSON = "application/json"

CHALLENGE = {"WWW-Authenticate": 'Basic realm="PocketMQ", charset="UTF-8"'}

Endpoint = Callable[[Request], Awaitable[Response]]


def api_app(operations: Iterable[Operation], gate: Gate, api: Api) -> Starlette:
    """Makes the application.

    Args:
        operations: the operations to serve.
        gate: decides which callers are served.
        api: what the API says of itself.
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
            query=_query(operation, request),
            body=_body(operation, await body_of(request)),
            caller=caller_of(request) if api.has_users else None,
        )
        answer = await operation.carry_out(call)
        return Response(msgspec.json.encode(answer), operation.status, media_type=JSON)

    return endpoint


def _query(operation: Operation, request: Request) -> Any:
    """Reads the query parameters of a request.

    Raises:
        UsageError: a parameter does not exist or does not fit.
    """
    given = dict(request.query_params)
    if operation.query is None:
        if given:
            raise UsageError(
                f"{operation.path} takes no parameters, and was given {', '.join(given)}"
            )
        return None
    try:
        return msgspec.convert(given, operation.query, strict=False)
    except msgspec.ValidationError as e:
        fields = ", ".join(operation.query.__struct_encode_fields__)
        raise UsageError(f"a parameter does not fit: {e}; there are: {fields}") from e


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
        if self._api.has_users and isinstance(error, NoPermissionError):
            return _forbidden(error, is_known="authorization" in request.headers)
        return _response(problem_of(error, self._api))

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


def _forbidden(error: NoPermissionError, *, is_known: bool) -> Response:
    """Answers 401 to somebody who named no user, and else 403."""
    if is_known:
        problem = Problem(
            title="The user may not do this",
            status=403,
            detail=str(error),
            remedy="check name and password; `pocketmq acl explain` tells which policy decides",
            code=error.code,
        )
        return _response(problem)
    problem = Problem(
        title="A user is needed",
        status=401,
        detail=str(error),
        remedy="name a user of the cluster and the password, by HTTP's Basic scheme",
        code=error.code,
    )
    return _response(problem, CHALLENGE)


def _response(problem: Problem, headers: Any = None) -> Response:
    content = msgspec.json.encode(problem)
    return Response(content, problem.status, headers, media_type=MEDIA_TYPE)
