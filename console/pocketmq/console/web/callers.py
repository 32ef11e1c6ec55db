"""Who asks: the user that a request names by HTTP's Basic scheme (RFC 7617), or of a login."""

from __future__ import annotations

import base64
import binascii

from starlette.requests import Request

from pocketmq.console.web.problems import ProblemError
from pocketmq.protocol.errors import ConfigError
from pocketmq.protocol.signing import Credentials

CALLER = "pocketmq.caller"
"""The key of a scope under which stands as which user somebody has logged in."""


def caller_of(request: Request) -> Credentials | None:
    """Reads the user and password of a request; None if it names nobody.

    Raises:
        ProblemError: 400, the header is not of the Basic scheme.
    """
    of_login: Credentials | None = request.scope.get(CALLER)
    given = request.headers.get("authorization")
    if of_login is not None or given is None:
        return of_login
    scheme, _, encoded = given.partition(" ")
    try:
        name, separator, password = (
            base64.b64decode(encoded.strip(), validate=True).decode().partition(":")
        )
        if scheme.lower() != "basic" or not separator:
            raise _unreadable()
        return Credentials(name, password)
    except (binascii.Error, UnicodeDecodeError, ConfigError) as e:
        raise _unreadable() from e


def _unreadable() -> ProblemError:
    return ProblemError(
        400,
        "The user cannot be read",
        "the header Authorization is not of the scheme Basic, with a name and a password",
        "send Authorization: Basic and base64 of name:password",
    )
