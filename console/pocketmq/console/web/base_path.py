"""The path before all links of pages, which a proxy takes away from requests."""

from __future__ import annotations

import re
from contextvars import ContextVar

from starlette.requests import Request

from pocketmq.console.web.problems import ProblemError
from pocketmq.protocol.errors import ConfigError

HEADER = "X-Forwarded-Prefix"

SIZE_MAX = 256
"""Characters of a path before all links."""

_PATH = re.compile(r"(?:/[A-Za-z0-9._~-]+)*")


class BasePath:
    """The path before all links of the answer that is being made; `str` gives the path.

    Args:
        configured: the path of requests that name none, such as ``/mq``; empty for none.
        is_forwarded: whether the proxy's header X-Forwarded-Prefix says it for each request. Only
            behind a proxy that sets or removes the header: else whoever asks chooses where links
            go.

    Raises:
        ConfigError: the path is none.
    """

    def __init__(self, configured: str = "", *, is_forwarded: bool = False) -> None:
        configured = configured.rstrip("/")
        if not _is_path(configured):
            raise ConfigError(
                f"the path before all links is {configured!r}: it must be like /mq, of letters, "
                f"digits and . _ ~ - between slashes, and of at most {SIZE_MAX} characters"
            )
        self._configured, self._is_forwarded = configured, is_forwarded
        self._of_request: ContextVar[str] = ContextVar("base_path", default=configured)

    def read(self, request: Request) -> None:
        """Takes the path that the proxy names for a request, for the rest of the request.

        Raises:
            ProblemError: 400, the proxy names none.
        """
        if not self._is_forwarded:
            return
        named = request.headers.getlist(HEADER)
        path = named[0].rstrip("/") if named else self._configured
        if len(named) > 1 or not _is_path(path):
            raise ProblemError(
                400,
                "The path before all links cannot be read",
                f"the header {HEADER} is {', '.join(named)[:SIZE_MAX]!r}",
                "have the proxy set it once, to a path like /mq",
            )
        self._of_request.set(path)

    def __str__(self) -> str:
        return self._of_request.get()


def _is_path(text: str) -> bool:
    return len(text) <= SIZE_MAX and _PATH.fullmatch(text) is not None
