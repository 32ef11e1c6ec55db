"""Sessions of people who have logged in, in signed cookies."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from typing import Any

import msgspec
from itsdangerous import BadSignature, URLSafeSerializer

from pocketmq.runtime.clock import Clock

SESSION_MS = 8 * 60 * 60 * 1000
"""Milliseconds that a session lasts."""

LOGIN_MS = 10 * 60 * 1000
"""Milliseconds that a login may take."""

ENDED_MAX = 10_000
"""Sessions that are remembered as ended before their time."""


class Session(msgspec.Struct):
    """A person who has logged in.

    Attributes:
        id: of the session.
        person: the name at the provider.
        value: of the claim by which the person is a user of the cluster.
        until_ms: when the session ends.
    """

    id: str
    person: str
    value: str
    until_ms: int


class Sessions:
    """Makes and reads the cookies; the key is another one with each start of the console.

    Args:
        clock: tells when sessions end.
    """

    def __init__(self, clock: Clock) -> None:
        key = secrets.token_bytes(32)
        self._sessions = URLSafeSerializer(key, salt="session")
        self._logins = URLSafeSerializer(key, salt="login")
        self._clock = clock
        self._ended: OrderedDict[str, None] = OrderedDict()

    def begin(self, person: str, value: str) -> str:
        """Makes the cookie of a new session."""
        until_ms = self._clock.now_ms() + SESSION_MS
        session = Session(secrets.token_hex(16), person, value, until_ms)
        return str(self._sessions.dumps(msgspec.to_builtins(session)))

    def read(self, cookie: str) -> Session | None:
        """Reads the cookie of a session; None if it is forged, or the session has ended."""
        session = _read(self._sessions, cookie, Session)
        if session is None or session.id in self._ended:
            return None
        return session if self._clock.now_ms() < session.until_ms else None

    def end(self, session: Session) -> None:
        """Ends a session: the cookie does not count any more, whoever has it."""
        while len(self._ended) >= ENDED_MAX:
            self._ended.popitem(last=False)
        self._ended[session.id] = None

    def keep_login(self, data: dict[str, Any], path: str) -> str:
        """Makes the cookie of a login that is under way.

        Args:
            data: of the login.
            path: where the person wanted to go.
        """
        login = Login(data, path, self._clock.now_ms() + LOGIN_MS)
        return str(self._logins.dumps(msgspec.to_builtins(login)))

    def login(self, cookie: str) -> Login | None:
        """Reads the cookie of a login; None if it is forged, or too old."""
        login: Login | None = _read(self._logins, cookie, Login)
        if login is None or self._clock.now_ms() >= login.until_ms:
            return None
        return login


class Login(msgspec.Struct):
    """A login that is under way."""

    data: dict[str, Any]
    path: str
    until_ms: int


def _read(serializer: URLSafeSerializer, cookie: str, kind: type[Any]) -> Any:
    try:
        return msgspec.convert(serializer.loads(cookie), kind)
    except (BadSignature, msgspec.ValidationError):
        return None
