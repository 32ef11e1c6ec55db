"""Limits a server's connections to the file handles that its process may have.

Out of handles a server cannot take connections, and worse, its store cannot open files.
"""

from __future__ import annotations

import logging
import resource

log = logging.getLogger("pocketmq.transport")

FEW_CONNECTIONS = 1024
"""A server with room for fewer connections warns: clients may well be turned away."""

SPARE_FILES = 128
"""Handles for everything else: libraries, the database, logs, threads that flush."""


def room_for_connections(wanted: int, other_files: int) -> int:
    """Raises the system's limit of open files, and returns how many connections then have room.

    Args:
        wanted: connections.
        other_files: handles that are needed besides.
    """
    needed = wanted + other_files + SPARE_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if _is_below(soft, needed):
        raised = min(hard, needed) if hard != resource.RLIM_INFINITY else needed
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
            soft = raised
        except (OSError, ValueError) as e:  # macOS says that there is no limit, but has one
            log.info("the limit of open files cannot be raised from %d to %d: %s", soft, raised, e)
    if not _is_below(soft, needed):
        return wanted
    room = max(soft - other_files - SPARE_FILES, 1)
    log.log(
        logging.WARNING if room < FEW_CONNECTIONS else logging.INFO,
        "at most %d connections instead of %d: the system allows this process %d open files "
        "(ulimit -n), of which the store takes %d",
        room,
        wanted,
        soft,
        other_files,
    )
    return room


def _is_below(limit: int, needed: int) -> bool:
    return limit != resource.RLIM_INFINITY and limit < needed
