"""An operation of the control API: its path, its types and the function that carries it out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import Struct


@dataclass(frozen=True)
class Call:
    """A request, read and checked.

    Attributes:
        path: the named parts of the path.
        query, body: values of the operation's types; None where it has none.
    """

    path: Mapping[str, str]
    query: Any = None
    body: Any = None


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
    """

    method: str
    path: str
    name: str
    summary: str
    carry_out: Callable[[Call], Awaitable[Struct]]
    gives: type[Struct]
    body: Any = None
    query: type[Struct] | None = None
    status: int = 200
