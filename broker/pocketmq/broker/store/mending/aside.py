"""Moves aside what a repair takes out of service; nothing is deleted."""

from __future__ import annotations

import os
from pathlib import Path

from pocketmq.broker.store.disk.files import Files

REPORT_NAME = "report.txt"
COPY_SIZE = 4 * 1024 * 1024
"""Bytes that are copied at once."""


class Aside:
    """A folder in the data directory that repeats its structure.

    Args:
        directory: the data directory.
        folder: the folder's path, below it; made when it is first needed.
    """

    def __init__(self, directory: Path, folder: Path) -> None:
        self._directory, self.folder = directory, folder

    def target_of(self, path: Path, ending: str = "") -> Path:
        """Returns the path to which a file of the data directory is moved; makes the folders above
        it.

        A name that is taken gets a number at its end.
        """
        relative = path.relative_to(self._directory)
        target = wanted = self.folder / relative.with_name(relative.name + ending)
        number = 1
        while target.exists():
            number += 1
            target = wanted.with_name(f"{wanted.name}.{number}")
        target.parent.mkdir(parents=True, exist_ok=True)
        return target

    def move(self, files: Files, path: Path) -> Path | None:
        """Moves a file or directory here; returns its new path, None if there is none."""
        if not path.exists():
            return None
        target = self.target_of(path)
        files.replace(path, target)
        files.sync_directory(target.parent)
        files.sync_directory(path.parent)
        return target

    def copy_part(self, files: Files, path: Path, start: int, ending: str) -> Path:
        """Copies the bytes of a file from a position on; returns the path of the copy."""
        target = self.target_of(path, ending)
        copy_bytes(files, path, start, files.size(path), target, b"")
        return target

    def write_report(self, lines: list[str]) -> None:
        """Appends to the report, among the files, what was done."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / REPORT_NAME
        with path.open("a", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)
            file.flush()
            os.fsync(file.fileno())


def copy_bytes(
    files: Files, source: Path, start: int, end: int, target: Path, header: bytes
) -> None:
    """Makes a file of a header and the bytes between two positions of another file."""
    files.create(target, header)
    at = len(header)
    while start < end:
        data = files.read(source, start, min(COPY_SIZE, end - start))
        files.write(target, at, data)
        start += len(data)
        at += len(data)
    files.sync(target)
    files.sync_directory(target.parent)
