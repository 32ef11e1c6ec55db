"""Places within a decoded value, as JSON pointers (RFC 6901)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pocketmq.protocol.errors import UsageError

MISSING = object()
"""What a name that leads nowhere gives."""


def joined(pointer: str, name: str) -> str:
    """Returns the pointer of a member."""
    return f"{pointer}/{name.replace('~', '~0').replace('/', '~1')}"


def at_pointer(value: object, pointer: str) -> object:
    """Returns the part of a value at a pointer.

    Raises:
        UsageError: it is no pointer, or leads nowhere.
    """
    if not pointer:
        return value
    if not pointer.startswith("/"):
        raise UsageError(f"{pointer!r} is no JSON pointer: write it as /customer/id")
    for part in pointer[1:].split("/"):
        value = member(value, part.replace("~1", "/").replace("~0", "~"))
        if value is MISSING:
            raise UsageError(f"there is nothing at {pointer} of the body")
    return value


def member(value: Any, name: str) -> Any:
    """Returns a member of an object by its name, or of a list by its number; else `MISSING`.

    Keys that are no strings, as MessagePack has them, are found by their text.
    """
    if isinstance(value, Mapping):
        if name in value:
            return value[name]
        return next((item for key, item in value.items() if str(key) == name), MISSING)
    if isinstance(value, (list, tuple)) and name.isascii() and name.isdecimal() and len(name) < 10:
        return value[int(name)] if int(name) < len(value) else MISSING
    return MISSING
