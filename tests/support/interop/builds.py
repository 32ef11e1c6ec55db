"""Builds of the interop tests: done once, repeated only when their sources change."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from support.interop.processes import ended

# The first build of a project downloads what it depends on, up to about 80 MB.
BUILD_TIMEOUT_S = 540
OUTPUT_SHOWN_MAX = 4000
STAMP = ".built"


class BuildFailure(Exception):
    """A tool could not build a project of the interop tests."""

    def __init__(self, project: Path, tool: str, remedy: str, output: str) -> None:
        """Keep the project's folder, what helps if nothing can be loaded, and the tool's output."""
        super().__init__(project, tool, remedy, output)
        self.project, self.tool, self.remedy, self.output = project, tool, remedy, output

    def __str__(self) -> str:
        return (
            f"{self.tool} failed in {self.project}; if it cannot download, check {self.remedy}:\n"
            f"{self.output[-OUTPUT_SHOWN_MAX:]}"
        )


def missing_tools(*tools: str) -> str | None:
    """Which of these commands are not on this machine, or None when all are."""
    absent = [tool for tool in tools if shutil.which(tool) is None]
    return f"{' and '.join(absent)} not on PATH" if absent else None


def build(
    project: Path, target: Path, sources: Iterable[Path], command: Sequence[str], remedy: str
) -> Path:
    """Run a build in ``project`` unless ``target`` already holds the result of these sources.

    Returns ``target``. Raises BuildFailure.
    """
    stamp = target / STAMP
    wanted = " ".join((_digest(project, sources), *command))
    with alone():
        if stamp.is_file() and stamp.read_text() == wanted:
            return target
        try:
            done = ended(command, folder=project, timeout_s=BUILD_TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            late = f"no result within {BUILD_TIMEOUT_S} s"
            raise BuildFailure(project, command[0], remedy, late) from error
        if done.returncode != 0:
            raise BuildFailure(project, command[0], remedy, done.stdout)
        stamp.write_text(wanted)
    return target


@contextmanager
def alone() -> Iterator[None]:
    """Holds off the builds of all other processes of this user.

    Those of one run of the tests share folders, and all share Maven's repository, into which only
    one Maven may download at a time.
    """
    path = Path(tempfile.gettempdir()) / f"pocketmq-builds-{os.getuid()}.lock"
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _digest(project: Path, sources: Iterable[Path]) -> str:
    """A digest of everything the build reads."""
    digest = hashlib.sha256()
    for source in sorted(sources):
        digest.update(source.relative_to(project).as_posix().encode())
        digest.update(source.read_bytes())
    return digest.hexdigest()
