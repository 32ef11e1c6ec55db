"""Who visits: what is known of the people behind requests, for the audit of the cluster."""

from __future__ import annotations

from contextvars import ContextVar
from typing import NamedTuple

from starlette.types import ASGIApp, Receive, Scope, Send

from pocketmq.protocol.messages.hosts import join_address

PERSON = "pocketmq.person"
"""The key of a scope under which stands who has logged in."""


class Visitor(NamedTuple):
    """The origin of a request.

    Attributes:
        person: who has logged in; empty without a login.
        address: ``host:port`` of the browser or program, or of the proxy before the console.
    """

    person: str = ""
    address: str = ""


NOBODY = Visitor()

_visitor: ContextVar[Visitor] = ContextVar("visitor", default=NOBODY)


def current_visitor() -> Visitor:
    """The origin of the request that is carried out in this context."""
    return _visitor.get()


class Visitors:
    """Makes known, while an application answers, where the request is from.

    Args:
        app: the application.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        client = scope.get("client")
        address = "" if client is None else join_address(*client)
        token = _visitor.set(Visitor(scope.get(PERSON, ""), address))
        try:
            await self._app(scope, receive, send)
        finally:
            _visitor.reset(token)
