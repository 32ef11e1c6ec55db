"""What can go wrong in the store: leaves of `OperatingError` (see `pocketmq.protocol.errors`).

OperatingError
└── StoreError
    ├── DirectoryInUseError    another process owns the data directory
    ├── DirectoryError         the data directory cannot be used at all
    ├── FormatError            a file is not of this store, or is damaged
    │   ├── VersionError       a file is of a version that this broker does not know
    │   └── DamagedQueueError  one queue cannot be served, the others can
    ├── IndexMendingError      an index is made again: reads succeed in a moment
    ├── NotReplicatedError     an append is stored, but the in-sync set does not have it in time
    ├── OwnerError             the data directory is another broker's
    └── WriteFailedError       the disk failed: the write was undone
        └── DiskFullError      no room: the write was refused or undone
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path

from pocketmq.protocol.errors import OperatingError


class StoreError(OperatingError):
    """The store cannot do what it is asked."""


class NotReplicatedError(StoreError):
    """What was appended is stored, but not all in-sync members of the broker set have it in time.

    Attributes:
        lacking: the ids of those that lack it.
    """

    def __init__(self, timeout_ms: int, lacking: Sequence[int]) -> None:
        super().__init__(timeout_ms, lacking)
        self.timeout_ms, self.lacking = timeout_ms, lacking

    def __str__(self) -> str:
        members = ", ".join(map(str, self.lacking)) or "a follower"
        return f"the members {members} of the broker set took longer than {self.timeout_ms} ms"


class DirectoryInUseError(StoreError):
    """Another process owns the data directory.

    Attributes:
        seen: that, without the remedy, for those who know a better one.
    """

    def __init__(self, directory: Path, pid: str) -> None:
        super().__init__(directory, pid)
        self.directory, self.pid = directory, pid
        self.seen = f"the data directory {directory} is in use by process {pid or 'unknown'}"

    def __str__(self) -> str:
        return f"{self.seen}: stop that broker, or give this one another storePathRootDir"


class DirectoryError(StoreError):
    """The data directory cannot be made, read or written."""

    def __init__(self, directory: Path, reason: str, remedy: str = "") -> None:
        super().__init__(directory, reason, remedy)
        self.directory, self.reason = directory, reason
        self.remedy = remedy or "make it readable and writable for this user"

    def __str__(self) -> str:
        return (
            f"the data directory {self.directory} cannot be used: {self.reason}; {self.remedy}, "
            f"or set another storePathRootDir"
        )


class FormatError(StoreError):
    """A file is not of this store, is damaged, or is of another version."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = path, reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class VersionError(FormatError):
    """A file was written by a version of PocketMQ that this one does not know."""


class DamagedQueueError(FormatError):
    """A queue's files are damaged: it is not served, the other queues are.

    Args:
        topic, queue_id: which one.
        cause: what was found.
        directory: the data directory.
    """

    def __init__(
        self, topic: str, queue_id: int, cause: FormatError | OSError, directory: Path
    ) -> None:
        path = cause.path if isinstance(cause, FormatError) else Path(cause.filename or directory)
        reason = cause.reason if isinstance(cause, FormatError) else cause.strerror or str(cause)
        super().__init__(path, reason)
        self.topic, self.queue_id, self.directory = topic, queue_id, directory
        if isinstance(cause, VersionError):
            self.remedy = "run the version of PocketMQ that wrote it"
        elif isinstance(cause, OSError) and cause.errno == errno.EIO:
            self.remedy = "look whether the disk is sound, then start the broker again"
        elif isinstance(cause, OSError):
            self.remedy = "make the files readable and writable for the broker's user"
        else:
            self.remedy = f"stop the broker and run `pocketmq store repair {directory}`"

    def __str__(self) -> str:
        return (
            f"queue {self.queue_id} of {self.topic} is not served: {self.path}: {self.reason}; "
            f"{self.remedy}"
        )


class IndexMendingError(StoreError):
    """Entries of an index that do not fit the log are made again: a later read will succeed."""

    def __init__(self, topic: str, queue_id: int) -> None:
        super().__init__(topic, queue_id)
        self.topic, self.queue_id = topic, queue_id

    def __str__(self) -> str:
        return (
            f"the index of queue {self.queue_id} of {self.topic} does not fit the log, and is "
            f"compared with the log now: try again in a moment"
        )


class OwnerError(StoreError):
    """A data directory belongs to another broker than the one that was started on it.

    Args:
        directory: which one.
        owner, other: cluster, name and id of whose it is, and of who wants it.
    """

    def __init__(self, directory: Path, owner: str, other: str) -> None:
        super().__init__(directory, owner, other)
        self.directory, self.owner, self.other = directory, owner, other

    def __str__(self) -> str:
        return (
            f"the data directory {self.directory} is that of {self.owner}, and this is "
            f"{self.other}: set this broker's own storePathRootDir, or give it that name; if the "
            f"broker was renamed, run `pocketmq store release {self.directory}` once"
        )


class WriteFailedError(StoreError):
    """The disk failed; the write was undone and nothing was acknowledged."""


class DiskFullError(WriteFailedError):
    """There is no room for the write."""
