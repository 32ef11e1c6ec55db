"""Merges the runs of a key file into few, step by step, so that a finished segment is soon
searched.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path

from pocketmq.broker.store.disk.files import Files
from pocketmq.broker.store.keys.key_file import KeyFile, RunWriter, SortedRun
from pocketmq.broker.store.log.segment import HEADER_SIZE, KEYS_MAGIC

MERGED_RUNS_MAX = 64
"""Runs that become one; of each of them a block is in memory."""


class _Source:
    """Reads the items of one run, block by block."""

    def __init__(self, key_file: KeyFile, run: SortedRun) -> None:
        self._key_file, self._run = key_file, run
        self._checksums = key_file.fences(run)[1]
        self._next = 0
        self.items: list[int] = []

    def refill(self) -> bool:
        """Reads the next block when all items were taken; returns whether there are items."""
        if not self.items and self._next < self._run.blocks:
            block = self._key_file.block(self._run, self._next, self._checksums[self._next])
            self.items = block.tolist()
            self._next += 1
        return bool(self.items)

    def take(self, bound: int) -> list[int]:
        """Removes and returns the items up to a bound, as far as they were read."""
        count = bisect_right(self.items, bound)
        taken, self.items = self.items[:count], self.items[count:]
        return taken


def merge_path(key_file: KeyFile) -> Path:
    """Returns the path where the new file grows; the next start removes what was given up."""
    return Path(f"{key_file.segment.stem}.merge")


def merge_runs(files: Files, key_file: KeyFile, merged: list[SortedRun]) -> Iterator[None]:
    """Writes `merge_path`, a part each step; a caller that gives up removes the file.

    Args:
        files: the disk.
        key_file: whose runs.
        merged: gets those of the new file.

    Raises:
        KeyFileError: the key file is damaged.
        OSError: the disk is full or failed.
    """
    segment, path = key_file.segment, merge_path(key_file)
    files.create(path, segment.header(KEYS_MAGIC))
    for start in range(0, len(key_file.runs), MERGED_RUNS_MAX):
        runs = key_file.runs[start : start + MERGED_RUNS_MAX]
        writer = RunWriter(files, path, merged[-1].end if merged else HEADER_SIZE)
        sources = [_Source(key_file, run) for run in runs]
        while sources := [source for source in sources if source.refill()]:
            # Nothing that is still to be read comes before the least of the last items.
            bound = min(source.items[-1] for source in sources)
            items = [item for source in sources for item in source.take(bound)]
            items.sort()
            writer.add(array("Q", items))
            yield
        last = runs[-1]
        merged.append(
            writer.finish(segment, runs[0].first_offset, last.end_offset, last.fingerprint)
        )
