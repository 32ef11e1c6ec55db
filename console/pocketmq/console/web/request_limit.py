"""Bounds how many requests an application carries out at a time."""

from __future__ import annotations

import msgspec
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from pocketmq.console.web.problems import MEDIA_TYPE, Problem

REQUESTS_MAX = 100
"""Requests under way at a time; further ones are answered with 503."""

RETRY_AFTER_S = 1


class RequestLimit:
    """Refuses requests while too many are under way.

    Args:
        app: the application.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._count = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        if self._count >= REQUESTS_MAX:
            problem = Problem(
                title="Too many requests",
                status=503,
                detail=f"{REQUESTS_MAX} requests are under way, which is the limit",
                remedy="try again in a moment",
            )
            headers = {"Retry-After": str(RETRY_AFTER_S)}
            answer = Response(msgspec.json.encode(problem), 503, headers, MEDIA_TYPE)
            await answer(scope, receive, send)
            return
        self._count += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._count -= 1
