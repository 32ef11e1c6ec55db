"""Stops commands on INT and TERM, also in the middle of a start."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager
from typing import TypeVar

import typer

from pocketmq.cli.output import EXIT_FAILED, EXIT_INTERRUPTED, note

T = TypeVar("T")


@contextmanager
def interruptible(going_on: str) -> Iterator[None]:
    """Turns Ctrl-C outside of an event loop into one line and an exit code.

    Args:
        going_on: how to go on, for the line.

    Raises:
        typer.Exit: Ctrl-C was pressed.
    """
    try:
        yield
    except KeyboardInterrupt:
        note(f"interrupted: {going_on}")
        raise typer.Exit(EXIT_INTERRUPTED) from None


def stop_event(*, on_stdin_end: bool = False) -> asyncio.Event:
    """Makes an event that INT and TERM set; with `on_stdin_end`, the end of standard input too."""
    loop = asyncio.get_running_loop()
    event = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, event.set)
    if on_stdin_end:
        descriptor = sys.stdin.fileno()

        def drained() -> None:
            # A parent that is killed cannot say so; its end of the pipe closes all the same.
            if not os.read(descriptor, 4096):
                loop.remove_reader(descriptor)
                event.set()

        loop.add_reader(descriptor, drained)
    return event


async def enter_unless_stopped(
    stack: AsyncExitStack, context: AbstractAsyncContextManager[T], stop: asyncio.Event
) -> T:
    """Enters a context on a stack, unless `stop` is set before.

    Raises:
        typer.Exit: `stop` was set first; the context is undone.
    """
    entering = asyncio.ensure_future(context.__aenter__())
    stopping = asyncio.ensure_future(stop.wait())
    await asyncio.wait({entering, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not entering.done():
        entering.cancel()
        await asyncio.wait({entering})
    if entering.cancelled():
        note("stopped before it was up; nothing is left behind")
        raise typer.Exit(EXIT_FAILED)
    entered = entering.result()
    stack.push_async_exit(context)
    return entered
