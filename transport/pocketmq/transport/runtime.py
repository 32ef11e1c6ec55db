"""How processes of this project run their main coroutine."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

import uvloop

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine on a fresh uvloop until it ends."""
    return uvloop.run(main)
