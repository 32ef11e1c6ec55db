"""Checkpoints: up to where a log and its index were on the disk."""

from __future__ import annotations

import os
from typing import NamedTuple

from pocketmq.broker.store.log.segment import HEADER_SIZE


class Checkpoint(NamedTuple):
    """The end of what is on the disk of a log and its index: recovery checks nothing before it.

    Attributes:
        position: bytes of records, counted from the log's beginning.
        offset: the next queue offset.
        timestamp: store time of the last record, milliseconds.
    """

    position: int = 0
    offset: int = 0
    timestamp: int = 0


def file_names(directory: str) -> list[str] | None:
    """Lists the files of a log's directory; None if there is no directory."""
    try:
        return os.listdir(directory)
    except FileNotFoundError:
        return None


def ends_at(directory: str, names: list[str] | None, checkpoint: Checkpoint) -> bool:
    """Whether the log files of a directory reach exactly to a checkpoint, by their sizes.

    Then there is nothing to check behind the checkpoint. No file is opened for this.
    """
    if names is None:
        return not checkpoint.position
    end = -1
    for name in sorted(name for name in names if name.endswith(".log")):
        stem = name[: -len(".log")]
        if f"{stem}.idx" not in names or not stem.isdecimal() or end not in (-1, int(stem)):
            return False
        end = int(stem) + os.stat(f"{directory}/{name}").st_size - HEADER_SIZE
    return end == checkpoint.position
