"""An operation of the control API: where it is asked for, what it takes and what it gives."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import Struct


@dataclass(frozen=True)
class Call:
    """One request, read and checked.

    Attributes:
        path: the parts of the path that have names.
        query, body: of the operation's types; None where it has none.
    """

    path: Mapping[str, str]
    query: Any = None
    body: Any = None


@dataclass(frozen=True)
class Operation:
    """One thing that can be asked.

    Attributes:
        method, path: where; parts of the path in braces have names.
        name: its id in the OpenAPI document.
        summary: what it does.
        carry_out: does it.
        gives: the type of the answer.
        body: the type of the body; a struct without required fields may be left out.
        query: the type of the parameters.
        status: of the answer.
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
