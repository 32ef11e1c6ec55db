"""The store's part of the broker's figures: room on the disk, physical offsets, queue logs."""

from __future__ import annotations

from pocketmq.broker.store.disk.disk import DiskGuard
from pocketmq.broker.store.disk.files import Files
from pocketmq.broker.store.log.queue_log import QueueLog
from pocketmq.broker.store.log.segment import physical_offset
from pocketmq.broker.store.metadata.damaged import DamagedQueues
from pocketmq.broker.store.queue_logs import QueueLogs
from pocketmq.broker.store.writing.committer import Committer

LOOKS_MAX = 256
"""Logs that are opened for one answer."""

_NO_POOL = (1 << 31) - 1
"""RocketMQ's figure of write buffers when it has no pool of them."""

_UNITS = "KMGTPE"


class StoreFigures:
    """Gathers the figures of the store for each request.

    Args:
        logs, disk, files, committer, damaged: of the store.
    """

    def __init__(
        self,
        logs: QueueLogs,
        disk: DiskGuard,
        files: Files,
        committer: Committer,
        damaged: DamagedQueues,
    ) -> None:
        self._logs, self._disk, self._files = logs, disk, files
        self._committer, self._damaged = committer, damaged

    def figures(self) -> dict[str, object]:
        """Returns the store's figures by name."""
        logs, use, refusal = self._logs, self._disk.use, self._disk.refusal
        ratio = f"{use.used_percent / 100:.4f}"
        first, last = self.physical_range()
        return {
            "writable": "false" if refusal else "true",
            **({"refusal": refusal} if refusal else {}),
            "commitLogDiskRatio": ratio,
            f"commitLogDiskRatio_{logs.root}": ratio,
            "consumeQueueDiskRatio": ratio,
            "commitLogDirCapacity": f"Total : {_readable(use.total)}, "
            f"Free : {_readable(use.free)}.",
            "commitLogMinOffset": first,
            "commitLogMaxOffset": last,
            "earliestMessageTimeStamp": self._earliest_ms(),
            "remainHowManyDataToFlush": _readable(self._committer.unflushed_size),
            "remainTransientStoreBufferNumbs": _NO_POOL,
            "dispatchBehindBytes": 0,
            "dispatchMaxBuffer": 0,
            "pageCacheLockTimeMills": 0,
            "queueLogs": len(logs.table),
            "openQueueLogs": len(logs.open_logs()),
            "openFiles": self._files.open_count,
            "damagedQueues": len(self._damaged),
            **{f"damagedQueue_{e.topic}_{e.queue_id}": str(e) for e in self._damaged},
        }

    def physical_range(self) -> tuple[int, int]:
        """Returns the lowest and the highest physical offset in use; logs come by their numbers."""
        low = high = 0
        numbers = sorted(known.number for known in self._logs.table)
        for number in numbers[:LOOKS_MAX]:
            if (queue_log := self._log(number)) is not None and queue_log.size:
                low = physical_offset(number, queue_log.written_position - queue_log.size)
                break
        for number in reversed(numbers):
            if (queue_log := self._log(number)) is not None:
                high = queue_log.next_physical_offset
                break
        return low, high

    def _log(self, number: int) -> QueueLog | None:
        known = self._logs.table.by_number(number)
        return None if known is None else self._logs.readable_log(known)

    def _earliest_ms(self) -> int:
        """Returns when the oldest message of all was stored; -1 without any.

        A segment is created for its first message. Of logs at rest beyond `LOOKS_MAX` only the time
        of the last message is known; those that are unchecked after a kill are left out.
        """
        logs = self._logs
        checked = [known for known in logs.table if known.number not in logs.unchecked]
        at_rest = [known for known in checked if logs.is_at_rest(known)]
        for known in at_rest[:LOOKS_MAX]:
            logs.readable_log(known)
        times = [known.checkpoint.timestamp for known in at_rest[LOOKS_MAX:] if known.checkpoint]
        times += [q.segments[0].created_ms for q in logs.open_logs() if q.size]
        return min(times, default=-1)


def _readable(size: int) -> str:
    """Returns bytes as RocketMQ writes them for people (`MixAll#humanReadableByteCount`)."""
    if size < 1024:
        return f"{size} B"
    exponent = min((size.bit_length() - 1) // 10, len(_UNITS))
    return f"{size / 1024**exponent:.1f} {_UNITS[exponent - 1]}iB"
