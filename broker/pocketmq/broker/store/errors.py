"""What can go wrong in the store: leaves of `OperatingError` (see `pocketmq.protocol.errors`).

OperatingError
└── StoreError
    ├── DirectoryInUseError    another process owns the data directory
    ├── DirectoryError         the data directory cannot be used at all
    ├── FormatError            a file is not of this store, or of another version
    ├── DiskFullError          no room: the write was refused or undone
    └── WriteFailedError       the disk failed: the write was undone
"""

from __future__ import annotations

from pathlib import Path

from pocketmq.protocol.errors import OperatingError


class StoreError(OperatingError):
    """The store cannot do what it is asked."""


class DirectoryInUseError(StoreError):
    """Another process owns the data directory."""

    def __init__(self, directory: Path, pid: str) -> None:
        super().__init__(directory, pid)
        self.directory, self.pid = directory, pid

    def __str__(self) -> str:
        return (
            f"the data directory {self.directory} is in use by process {self.pid or 'unknown'}: "
            f"stop that broker, or give this one another storePathRootDir"
        )


class DirectoryError(StoreError):
    """The data directory cannot be made, read or written."""

    def __init__(self, directory: Path, reason: str) -> None:
        super().__init__(directory, reason)
        self.directory, self.reason = directory, reason

    def __str__(self) -> str:
        return (
            f"the data directory {self.directory} cannot be used: {self.reason}; make it readable "
            f"and writable for this user, or set another storePathRootDir"
        )


class FormatError(StoreError):
    """A file is not of this store, is damaged, or is of another version."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = path, reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class DiskFullError(StoreError):
    """There is no room for the write."""


class WriteFailedError(StoreError):
    """The disk failed; the write was undone and nothing was acknowledged."""
