"""How much memory a process may use for its data and for what the system keeps of its files."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

_LIMIT_FILES = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


def memory_size(limit_files: Iterable[Path] = _LIMIT_FILES) -> int:
    """Returns the bytes of memory that the machine has, or that the container is allowed.

    Args:
        limit_files: where the system tells the container's limit, if it has one.
    """
    size = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for path in limit_files:
        try:
            text = path.read_text().strip()
        except OSError:
            continue
        if text.isdecimal():  # else "max": there is no limit
            size = min(size, int(text))
    return size
