"""Verifies a directory of backups: each byte of each run, and that each log is without a gap."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from pocketmq.broker.backup.directory import Backup, BackupDirectory, LogCopy
from pocketmq.broker.backup.packs import DAMAGED, Run, read_run
from pocketmq.broker.store.disk.errors import FormatError
from pocketmq.protocol.errors import ContentError

PROBLEMS_MAX = 100
"""Problems that are told; what is damaged in many places needs no longer list."""

OnProgress = Callable[[int], object]


class BackupsReport(NamedTuple):
    """What was checked.

    Attributes:
        backups: the numbers of the backups.
        size: bytes of runs.
        problems: what is wrong, each with its remedy.
    """

    backups: list[int]
    size: int
    problems: list[str]


def packs_size(path: Path) -> int:
    """Bytes of all packs in a directory."""
    return sum(pack.stat().st_size for pack in (path / "packs").glob("*.pack"))


def check_backups(path: Path, on_progress: OnProgress = lambda size: None) -> BackupsReport:
    """Reads everything that the backups of a directory have; nothing is changed.

    Args:
        path: of the directory.
        on_progress: told of bytes that were read.

    Raises:
        UsageError: it is no directory of backups.
        OperatingError: another process changes it.
    """
    directory = BackupDirectory(path)
    problems: list[str] = []
    size = 0
    with directory.held(changes=False):
        numbers = directory.numbers()
        known: set[tuple[int, Run]] = set()
        for number in numbers:
            try:
                backup = directory.read(number)
            except FormatError as e:
                problems.append(str(e))
                continue
            problems += _gaps(directory, backup)
            for copy in backup.logs:
                for run in copy.runs:
                    if (copy.number, run) in known:
                        continue
                    known.add((copy.number, run))
                    problems += _damage(path, copy, run)
                    size += run.size
                    on_progress(run.size)
                    if len(problems) >= PROBLEMS_MAX:
                        return BackupsReport(numbers, size, problems)
    return BackupsReport(numbers, size, problems)


def _damage(path: Path, copy: LogCopy, run: Run) -> list[str]:
    try:
        for _ in read_run(path, copy.number, run):
            pass
    except (FormatError, ContentError, OSError) as e:
        return [f"{copy.topic} queue {copy.queue_id}: {e}"]
    return []


def _gaps(directory: BackupDirectory, backup: Backup) -> list[str]:
    """The logs of a backup whose runs do not follow each other up to the end."""
    path = directory.backup_path(backup.number)
    out = []
    for copy in backup.logs:
        if not copy.runs:
            continue
        ends = [(run.end_position, run.end_offset) for run in copy.runs]
        begins = [(run.position, run.offset) for run in copy.runs[1:]]
        if ends != [*begins, (copy.position, copy.offset)]:
            out.append(f"{path}: {copy.topic} queue {copy.queue_id} has a gap: {DAMAGED}")
    return out
