"""Shows how far long work on a data directory is."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

OnProgress = Callable[[int], object]


@contextmanager
def progress(what: str, size: int) -> Iterator[OnProgress]:
    """Shows a progress bar on a terminal, nothing otherwise.

    Args:
        what: is done.
        size: bytes in all; the function that is given tells it of so many bytes more.
    """
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    with _bar() as bar:
        task = bar.add_task(what, total=size)
        yield lambda count: bar.advance(task, count)


@contextmanager
def growing_progress(what: str) -> Iterator[Callable[[int, int], object]]:
    """Does the same where the bytes done, and those in all, are told each time."""
    if not sys.stderr.isatty():
        yield lambda _, __: None
        return
    with _bar() as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _bar() -> Progress:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
