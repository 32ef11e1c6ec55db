"""Headers of security on each answer, whoever makes the answer."""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

NO_CONTENT_POLICY = (
    "default-src 'none'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
"""Of answers that are no pages: a browser loads and runs nothing for them."""

SECURE_HEADERS = {
    "Content-Security-Policy": NO_CONTENT_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""On each answer, unless the answer has another value of its own.

No other site shows an answer in a frame, or loads one as an image, a style or a script.
"""

KEPT, NOT_KEPT = "no-cache", "no-store"
"""Browsers keep files, and ask whether these have changed; of a cluster nothing is kept."""


class SecureHeaders:
    """Adds the headers to the answers of an application.

    Args:
        app: the application.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SECURE_HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("Cache-Control", KEPT if "etag" in headers else NOT_KEPT)
            await send(message)

        await self._app(scope, receive, send_with_headers)
