"""Runs the main coroutine of a process, and tunes the processes of servers."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Coroutine
from typing import Any, TypeVar

import uvloop

T = TypeVar("T")

FREED_BYTES_KEPT = 32 * 1024 * 1024
"""Bytes of freed memory that a server keeps: room for two frames of the largest size."""

THREAD_SWITCH_S = 0.000_5
"""How long another thread of a server may go on while the loop wants to: the loop asks after each
call of the system, so Python's 5 ms make a request wait for 0.1 s beside a thread that works."""

_MALLOC_VARIABLES = frozenset({"MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"})

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""Of glibc's mallopt, malloc.h."""


def run(main: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine on a fresh uvloop until it ends."""
    return uvloop.run(main)


def run_server(main: Coroutine[Any, Any, T]) -> T:
    """Runs the main coroutine of a process that serves and does nothing else."""
    keep_freed_memory()
    sys.setswitchinterval(THREAD_SWITCH_S)
    return run(main)


def keep_freed_memory() -> bool:
    """Has this process's malloc keep `FREED_BYTES_KEPT` of what is freed; tells whether it does.

    Otherwise glibc gives the megabytes of each bulk answer back to the system, which then hands
    them out again page by page, each cleared: two thirds of what a bulk pull costs. Other C
    libraries do not have the call, and glibc's environment variables have precedence.
    """
    if not _MALLOC_VARIABLES.isdisjoint(os.environ):
        return False
    import ctypes  # only servers need it

    tell = getattr(ctypes.CDLL(None), "mallopt", None)
    if tell is None:
        return False
    # What is mapped by itself is never kept: there are no such blocks below the threshold.
    options = (_M_MMAP_THRESHOLD, _M_TRIM_THRESHOLD)
    return all(tell(option, FREED_BYTES_KEPT) for option in options)


def give_back_freed_memory() -> bool:
    """Has this process's malloc give the system what is freed; tells whether any was.

    After some hundred large frames at once glibc would keep most of their memory, since something
    small that is still used lies behind it. Takes some 10 ms, in which malloc has to wait.
    """
    import ctypes  # only servers need it

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return trim is not None and bool(trim(0))


def spare_what_stays() -> None:
    """Has the garbage collector ignore all objects that exist now; for a server that has started.

    Modules, tables and configuration live as long as the process: a full round over them takes some
    10 ms, in which nobody is served, and never finds anything.
    """
    gc.freeze()
