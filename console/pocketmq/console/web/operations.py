"""An operation of a JSON API: its path, its types and the function that carries it out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import Struct

from pocketmq.console.web.streams import Stream
from pocketmq.protocol.signing import Credentials


@dataclass(frozen=True)
class Call:
    """A request, read and checked.

    Attributes:
        path: the named parts of the path.
        query, body: values of the operation's types; None where it has none.
        caller: with whose rights it is to be carried out; None if the request names nobody.
        reason: why something is changed, for the audit; None if the request gives none.
    """

    path: Mapping[str, str]
    query: Any = None
    body: Any = None
    caller: Credentials | None = None
    reason: str | None = None


@dataclass(frozen=True)
class Operation:
    """An operation.

    Attributes:
        method, path: the HTTP method and path; parts of the path in braces have names.
        name: the operation's id in the OpenAPI document.
        summary: the operation's effect, for the document.
        carry_out: carries the operation out.
        gives: the type of the answer.
        body: the type of the body; a struct without required fields may be left out.
        query: the type of the parameters.
        status: the HTTP status of the answer.
        media: of the answer; any other than JSON makes `carry_out` return a `Stream`, and `gives`
            is the type of each event.
    """

    method: str
    path: str
    name: str
    summary: str
    carry_out: Callable[[Call], Awaitable[Struct | Stream]]
    gives: type[Struct]
    body: Any = None
    query: type[Struct] | None = None
    status: int = 200
    media: str = "application/json"


@dataclass(frozen=True)
class Api:
    """What an API says of itself.

    Attributes:
        name: in sentences, such as ``control API``.
        title, summary: of the OpenAPI document.
        when_refused: the remedy when a broker has refused.
        when_failed: the remedy when something could not be done.
        when_remote: the remedy for a caller who is on another machine than the API admits.
        when_mistaken: how an error of the API's own is to be reported.
        prefix: before ``/openapi.json``.
        has_users: whether requests name a user, by HTTP's Basic scheme.
    """

    name: str
    title: str
    summary: str
    when_refused: str
    when_failed: str
    when_remote: str
    when_mistaken: str
    prefix: str = ""
    has_users: bool = False
