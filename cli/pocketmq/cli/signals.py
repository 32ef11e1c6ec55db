"""Running until told to stop."""

from __future__ import annotations

import asyncio
import os
import signal
import sys


def stop_event(*, on_stdin_end: bool = False) -> asyncio.Event:
    """An event that INT and TERM set; with `on_stdin_end`, the end of standard input too."""
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
