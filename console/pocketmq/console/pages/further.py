"""What a component above the console adds to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pocketmq.console.pages.pages import Family
from pocketmq.console.web.operations import Call
from pocketmq.runtime.clock import Clock

Heard = Callable[[str, Call, Any], None]
"""Is told of what has changed the cluster: the operation's function, its call, its answer."""


@dataclass(frozen=True)
class Further:
    """Adds pages to a console, and follows what is done with it.

    Attributes:
        families: further pages.
        links: paths and names of those in the navigation.
        templates: the folder of their templates, whose names are others than the console's.
        heard: is told of each change that was carried out; None for nobody.
        clock: of the clients that the console asks the cluster with; None for the machine's.
    """

    families: Sequence[Family] = ()
    links: Sequence[tuple[str, str]] = ()
    templates: Path | None = None
    heard: Heard | None = None
    clock: Clock | None = None


NOTHING = Further()
"""A console of its own."""
