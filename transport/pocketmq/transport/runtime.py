"""How processes of this project run their main coroutine."""

from __future__ import annotations

import gc
from collections.abc import Coroutine
from typing import Any, TypeVar

import uvloop

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine on a fresh uvloop until it ends."""
    return uvloop.run(main)


def spare_what_stays() -> None:
    """Has the garbage collector leave alone what there is now, for a server that has started.

    Modules, tables and configuration live as long as the process: a full round over them takes some
    10 ms, in which nobody is served, and never finds anything.
    """
    gc.freeze()
