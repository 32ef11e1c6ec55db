"""Tells errors in a page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response

from pocketmq.console.pages.rendering import Renderer
from pocketmq.console.web.app import headers_of, problem_for
from pocketmq.console.web.operations import Api
from pocketmq.protocol.errors import PocketMQError

Shown = Callable[[Request], Awaitable[Response]]


class Answering:
    """Makes endpoints of functions that raise errors.

    Args:
        renderer: renders the page of a problem.
        api: for problems.
    """

    def __init__(self, renderer: Renderer, api: Api) -> None:
        self._renderer, self._api = renderer, api

    def __call__(self, page: Shown) -> Shown:
        """Tells what `page` raises in a page."""

        async def answer(request: Request) -> Response:
            try:
                return await page(request)
            except PocketMQError as e:
                problem = problem_for(request, e, self._api)
                return self._renderer.page(
                    "problem.html",
                    problem.status,
                    headers_of(problem),
                    problem=problem,
                    here=request.url.path,
                )

        return answer
