"""Takes segments out of a log, and removes the files that a crash left unfinished."""

from __future__ import annotations

import logging
from pathlib import Path

from pocketmq.broker.store.disk.files import Files
from pocketmq.broker.store.log.segment import HEADER_SIZE

log = logging.getLogger("pocketmq.store")

REMADE_SUFFIX = ".remade"
"""Ends the name of an index that is made again, until the index is on the disk."""

UNFINISHED_SUFFIXES = (".merge", REMADE_SUFFIX)
"""End the names of files that were not finished: the next start removes these files."""


def remove_segments(files: Files, log_paths: list[Path]) -> int:
    """Takes segments out of a log, durably; returns how many bytes of records they held.

    A segment that holds records is kept under another name. On return the directories are on the
    disk: the log goes on where these segments began, and they must not come back in its middle.
    """
    size = sum(_remove_segment(files, path) for path in log_paths)
    for directory in {path.parent for path in log_paths}:
        files.sync_directory(directory)
    return size


def remove_unfinished(files: Files, directory: Path) -> None:
    """Removes the directory of a queue whose log holds nothing, since a crash came at its start."""
    if directory.is_dir():
        remove_segments(files, sorted(directory.glob("*.log")))
        left = (".idx", ".keys", *UNFINISHED_SUFFIXES)
        if all(path.suffix in left for path in directory.iterdir()):
            files.delete_directory(directory)


def _remove_segment(files: Files, log_path: Path) -> int:
    size = files.size(log_path) - HEADER_SIZE
    files.delete(log_path.with_suffix(".idx"))
    files.delete(log_path.with_suffix(".keys"))
    if size <= 0:
        files.delete(log_path)
        return 0
    kept = files.set_aside(log_path)
    log.error("%s cannot be joined to the records before it: it is kept as %s", log_path, kept.name)
    return size
