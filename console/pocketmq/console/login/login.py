"""Logins of the console: the pages, and the guard that serves only those who have logged in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from html import escape
from urllib.parse import urlencode

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from pocketmq.console.login.provider import Provider
from pocketmq.console.login.sessions import LOGIN_MS, SESSION_MS, Session, Sessions
from pocketmq.console.login.settings import LoginOptions
from pocketmq.console.web.base_path import BasePath
from pocketmq.console.web.callers import CALLER
from pocketmq.console.web.gate import Gate
from pocketmq.console.web.problems import MEDIA_TYPE, Problem, ProblemError
from pocketmq.console.web.visitors import PERSON
from pocketmq.protocol.errors import PocketMQError
from pocketmq.runtime.clock import Clock

SESSION, LOGIN = "pocketmq_session", "pocketmq_login"
"""The names of the cookies."""

OPEN_PATHS = frozenset({"/login", "/login/callback", "/logout"})
"""What is served without a login."""

PATH_MAX = 2000
"""Characters of the path to which a person goes after a login."""

PERSON_MAX = 200
"""Characters of a person's name."""

POLICY = (
    "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)

Endpoint = Callable[[Request], Awaitable[Response]]


class Logins:
    """Logs people in and out, and says with whose rights they ask.

    Args:
        options: how people log in.
        gate: decides which callers are served.
        base: the path before all links.
        origin: where browsers see the console; empty for where they ask.
        clock: tells when sessions end.
    """

    def __init__(
        self, options: LoginOptions, gate: Gate, base: BasePath, origin: str, clock: Clock
    ) -> None:
        self._users, self._gate, self._base, self._origin = options.users, gate, base, origin
        self._provider = Provider(options)
        self._sessions = Sessions(clock)

    def routes(self) -> list[BaseRoute]:
        """Returns the paths of logins."""
        return [
            Route("/login", self._answering(self._login), methods=["GET"]),
            Route("/login/callback", self._answering(self._callback), methods=["GET"]),
            Route("/logout", self._answering(self._logout_page), methods=["GET"]),
            Route("/logout", self._answering(self._logout), methods=["POST"]),
        ]

    def guard(self, app: ASGIApp) -> ASGIApp:
        """Puts the guard before an application."""

        async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
            path: str = scope["path"]
            request = Request(scope)
            session = self._session(request)
            # Basic would admit anybody where the cluster asks nobody for a password.
            scope["headers"] = [pair for pair in scope["headers"] if pair[0] != b"authorization"]
            if session is not None:
                user = self._users.named(session.value)
                assert user is not None, "it was looked for"
                scope[PERSON], scope[CALLER] = session.person, user.credentials
            elif path not in OPEN_PATHS and not path.startswith("/static/"):
                answer = await self._answering(self._stranger)(request)
                await answer(scope, receive, send)
                return
            await app(scope, receive, send)

        return guarded

    def _session(self, request: Request) -> Session | None:
        session = self._sessions.read(request.cookies.get(SESSION, ""))
        return None if session is None or self._users.named(session.value) is None else session

    async def _stranger(self, request: Request) -> Response:
        """Answers somebody who has not logged in."""
        self._gate.check(request)
        path = request.url.path
        if request.method == "GET" and not path.startswith("/api/"):
            query = f"?{request.url.query}" if request.url.query else ""
            wanted = urlencode({"path": f"{path}{query}"[:PATH_MAX]})
            return RedirectResponse(f"{self._base}/login?{wanted}", 303)
        problem = Problem(
            title="A login is needed", status=401,
            detail="this console serves people who have logged in",
            remedy="open the console in a browser, and log in",
        )  # fmt: skip
        return Response(msgspec.json.encode(problem), 401, media_type=MEDIA_TYPE)

    async def _login(self, request: Request) -> Response:
        self._gate.check(request)
        request.scope["session"] = {}
        origin = self._origin or f"http://{request.headers['host']}"
        answer = await self._provider.send_there(request, f"{origin}{self._base}/login/callback")
        cookie = self._sessions.keep_login(
            request.scope["session"], _own_path(request.query_params.get("path", "/"))
        )
        self._set(request, answer, LOGIN, cookie, LOGIN_MS)
        return answer

    async def _callback(self, request: Request) -> Response:
        self._gate.check(request)
        login = self._sessions.login(request.cookies.get(LOGIN, ""))
        if login is None:
            raise ProblemError(
                403, "The login was refused", "no login was begun in this browser of late",
                "begin the login again at /login",
            )  # fmt: skip
        request.scope["session"] = login.data
        claims = await self._provider.claims_of(request)
        user = self._users.user_of(claims)
        if user is None:
            raise ProblemError(
                403, "Nobody knows this person",
                f"the claim {self._users.claim} of the provider is of no user of this console",
                "have the console's file of users name one of its values",
            )  # fmt: skip
        name = next(
            (str(claims[key]) for key in ("preferred_username", "email", "sub") if claims.get(key)),
            "",
        )
        answer = RedirectResponse(f"{self._base}{login.path}", 303)
        cookie = self._sessions.begin(name[:PERSON_MAX], user.value)
        self._set(request, answer, SESSION, cookie, SESSION_MS)
        self._set(request, answer, LOGIN, "", 0)
        return answer

    async def _logout_page(self, request: Request) -> Response:
        self._gate.check(request)
        session = self._session(request)
        if session is None:
            return self._page("Nobody is logged in", f'<p><a href="{self._base}/login">Log in</a>.')
        return self._page(
            "Log out?",
            f"<p>You are {escape(session.person)}.</p>"
            f'<form method="post" action="{self._base}/logout"><button>Log out</button></form>',
        )

    async def _logout(self, request: Request) -> Response:
        self._gate.check(request)
        session = self._session(request)
        if session is not None:
            self._sessions.end(session)
        answer = RedirectResponse(f"{self._base}/logout", 303)
        self._set(request, answer, SESSION, "", 0)
        return answer

    def _set(self, request: Request, answer: Response, name: str, value: str, age_ms: int) -> None:
        is_secure = self._origin.startswith("https:") or request.url.scheme == "https"
        answer.set_cookie(
            name, value, max_age=age_ms // 1000, path=str(self._base) or "/", httponly=True,
            samesite="lax", secure=is_secure,
        )  # fmt: skip

    def _page(self, title: str, content: str, status: int = 200) -> Response:
        text = (
            f'<!doctype html><html lang="en"><head><meta charset="utf-8">'
            f'<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{escape(title)} · PocketMQ</title>"
            f'<link rel="stylesheet" href="{self._base}/static/style.css"></head>'
            f'<body><main id="main"><h1>{escape(title)}</h1>{content}</main></body></html>'
        )
        return HTMLResponse(text, status, {"Content-Security-Policy": POLICY})

    def _answering(self, endpoint: Endpoint) -> Endpoint:
        """Tells errors in a page."""

        async def answer(request: Request) -> Response:
            try:
                return await endpoint(request)
            except ProblemError as e:
                problem = e.problem
            except PocketMQError as e:
                problem = Problem(title="It could not be done", status=502, detail=str(e),
                                  remedy="try again")  # fmt: skip
            content = (
                f"<p>{escape(problem.detail)}</p><p>{escape(problem.remedy)}</p>"
                f'<p><a href="{self._base}/login">Log in</a></p>'
            )
            return self._page(problem.title, content, problem.status)

        return answer


def _own_path(path: str) -> str:
    """A path of this console, and of no other site."""
    is_own = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()
    return path[:PATH_MAX] if is_own else "/"
