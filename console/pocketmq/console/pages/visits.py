"""Tokens of forms, and the notice of what a form has done: both hang on cookies of the browser."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections import OrderedDict
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from pocketmq.console.web.base_path import BasePath

NOTICES_MAX = 256
"""Notices that no page has shown yet; a further one takes the place of the oldest."""

NOTICE_AGE_S = 60
"""Seconds for which a browser keeps the name of a notice."""

VISITOR = "pocketmq_visitor"
NOTICE = "pocketmq_notice"
"""The names of the cookies."""

TOKEN = "token"  # noqa: S105 - a name
"""The field of a form that holds its token."""

_NAME = re.compile(r"[0-9a-f]{32}")


class Notice(NamedTuple):
    """What a form has done.

    Attributes:
        text: in a sentence.
        path: where a link leads to, such as to what was made; empty for none.
        link: its text.
    """

    text: str
    path: str = ""
    link: str = ""


class Visits:
    """Knows the browsers that fill in forms.

    A token is a signature of a random cookie and of the user: a page of another site can neither
    read the cookie nor guess the token, and the cookie does not come along with its requests
    (SameSite=Strict).

    Args:
        base: the path before all links.
    """

    def __init__(self, base: BasePath) -> None:
        self._key = secrets.token_bytes(32)
        self._base = base
        self._notices: OrderedDict[str, Notice] = OrderedDict()

    def of(self, request: Request) -> Visit:
        """The visit that a request belongs to."""
        return Visit(self, request)

    @property
    def path(self) -> str:
        """The path of the cookies."""
        return str(self._base) or "/"

    def signed(self, visitor: str, user: str) -> str:
        """The token of a visitor, as a user."""
        text = f"{visitor}:{user}".encode()
        return hmac.new(self._key, text, hashlib.sha256).hexdigest()

    def keep(self, notice: Notice) -> str:
        """Keeps a notice until a page shows it, and names it."""
        while len(self._notices) >= NOTICES_MAX:
            self._notices.popitem(last=False)
        name = secrets.token_hex(16)
        self._notices[name] = notice
        return name

    def take(self, name: str) -> Notice | None:
        """Takes a notice to show it; None if it was shown."""
        return self._notices.pop(name, None)


class Visit:
    """One request of a browser, and what its answer sets.

    Args:
        visits: knows the browsers.
        request: the request.
    """

    def __init__(self, visits: Visits, request: Request) -> None:
        self._visits, self._request = visits, request
        self._set: dict[str, tuple[str, int | None]] = {}

    @property
    def token(self) -> str:
        """The token for the forms of a page."""
        visitor = self._visitor
        if visitor is None:
            set_one = self._set.setdefault(VISITOR, (secrets.token_hex(16), None))
            visitor = set_one[0]
        return self._visits.signed(visitor, self._user)

    def fits(self, token: str) -> bool:
        """Tells whether a token was given to this browser, for this user."""
        visitor = self._visitor
        if visitor is None:
            return False
        # A browser may name its user only when a form was refused for want of one.
        users = {self._user, ""}
        expected = [self._visits.signed(visitor, user) for user in users]
        return any(hmac.compare_digest(each.encode(), token.encode()) for each in expected)

    def take_notice(self) -> Notice | None:
        """The notice that waits for this browser, which is shown once; None if there is none."""
        name = self._request.cookies.get(NOTICE)
        if name is None:
            return None
        self._set[NOTICE] = ("", 0)
        return self._visits.take(name)

    def leave_notice(self, notice: Notice) -> None:
        """Leaves a notice for the next page."""
        self._set[NOTICE] = (self._visits.keep(notice), NOTICE_AGE_S)

    def end(self, response: Response) -> None:
        """Sets the cookies in an answer."""
        for name, (value, age_s) in self._set.items():
            response.set_cookie(
                name,
                value,
                max_age=age_s,
                path=self._visits.path,
                httponly=True,
                samesite="strict",
                secure=self._request.url.scheme == "https",
            )

    @property
    def _visitor(self) -> str | None:
        found = self._request.cookies.get(VISITOR, "")
        return found if _NAME.fullmatch(found) else None

    @property
    def _user(self) -> str:
        return self._request.headers.get("authorization", "")
