"""Makes a data directory of a backup, as a follower that is told everything by its leader."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from pocketmq.broker.backup.directory import Backup, BackupDirectory
from pocketmq.broker.backup.packs import DAMAGED, read_run
from pocketmq.broker.groups.offsets import ConsumerOffsets
from pocketmq.broker.replication.follower import Follower
from pocketmq.broker.replication.items import (
    ITEM_SIZE_MAX,
    Item,
    Records,
    Table,
    TablesEnd,
    encode_item,
)
from pocketmq.broker.replication.member import EPOCH
from pocketmq.broker.store.disk.errors import FormatError
from pocketmq.broker.store.log.segment import ENTRY_SIZE
from pocketmq.broker.store.metadata.common_tables import LOG_TABLE
from pocketmq.broker.store.metadata.log_epochs import LogEpochs
from pocketmq.broker.store.metadata.metadata import SET_ID
from pocketmq.broker.store.settings import StoreSettings
from pocketmq.broker.store.store import MessageStore
from pocketmq.protocol.errors import UsageError
from pocketmq.runtime.clock import Clock

FLUSHED_SIZE = 256 * 1024 * 1024
"""Bytes after which everything is brought to the disk, so that a stop does not take long."""

UNFINISHED = ".restoring"
"""What the name of a directory ends with until it is whole."""

OnProgress = Callable[[int, int], object]
"""Told of the bytes of records that are restored, and of those in all."""


class RestoreReport(NamedTuple):
    """What was restored.

    Attributes:
        backup: from which.
        queues: how many logs.
        records: how many records.
    """

    backup: Backup
    queues: int
    records: int


async def restore(
    path: Path,
    target: Path,
    clock: Clock,
    number: int | None = None,
    *,
    leave_set: bool = False,
    on_progress: OnProgress = lambda done, total: None,
) -> RestoreReport:
    """Makes a data directory, which has its name only when it is whole and on the disk.

    Args:
        path: the directory of backups.
        target: the data directory; it must be missing or empty.
        clock: of the machine.
        number: of the backup; None for the newest.
        leave_set: the directory is of no broker set any more: it begins one of its own, or is a
            broker without one. Else it can only join the set that it was in.
        on_progress: told how far it is.

    Raises:
        UsageError: the target is not empty or cannot be replaced, or there is no such backup.
        FormatError: the backup is damaged, or of another version.
        StoreError, OSError: the disk does not take it.
    """
    directory = BackupDirectory(path)
    _check_target(target)
    with directory.held(changes=False):
        backup = directory.read(number)
        building = target.with_name(target.name + UNFINISHED)
        if building.exists():
            shutil.rmtree(building)
        restoring = _Restoring(directory.path, backup, building, clock, leave_set=leave_set)
        try:
            await restoring.run(on_progress)
        except BaseException:
            shutil.rmtree(building, ignore_errors=True)
            raise
        building.rename(target)
        return RestoreReport(backup, len(backup.logs), restoring.records)


def _check_target(target: Path) -> None:
    if target.exists():
        if not target.is_dir() or any(target.iterdir()):
            raise UsageError(
                f"{target} is there and not empty: move it away, or name another directory; a "
                f"restore never changes what is there"
            )
        if target.is_mount():
            raise UsageError(
                f"{target} is a mount point, which cannot be replaced by the whole directory in "
                f"one step: name a directory in it"
            )
    target.parent.mkdir(parents=True, exist_ok=True)


class _Restoring:
    """A data directory while it is filled."""

    def __init__(
        self, packs: Path, backup: Backup, building: Path, clock: Clock, *, leave_set: bool
    ) -> None:
        self._packs, self._backup, self._clock = packs, backup, clock
        self._building, self._leave_set = building, leave_set
        self.records = 0

    async def run(self, on_progress: OnProgress) -> None:
        settings = StoreSettings(segment_size=self._backup.segment_size, disk_free_min=0)
        self._store = store = MessageStore(self._building, settings, self._clock)
        try:
            self._follower = Follower(store, LogEpochs(store.metadata))
            self._apply_tables()
            await self._apply_logs(on_progress)
            self._follower.show_all()
            ConsumerOffsets(store.metadata).bring_back(
                store.end_offset, store.logs.least_end_offset
            )
            self._enter_set()
        finally:
            await store.close()

    def _apply(self, item: Item) -> None:
        self._follower.apply(b"".join(encode_item(item)), 0)

    def _apply_tables(self) -> None:
        for name, rows in self._backup.tables:
            self._apply(Table(name, rows))
        logs = [(copy.number, copy.topic, copy.queue_id) for copy in self._backup.logs]
        self._apply(Table(LOG_TABLE, logs))
        self._apply(TablesEnd())

    async def _apply_logs(self, on_progress: OnProgress) -> None:
        """Applies all records, many in a frame: a frame's epochs are noted with one flush.

        Raises:
            FormatError: the backup is damaged.
            StoreError, OSError: the disk does not take them.
        """
        done = unflushed = size = 0
        frame: list[bytes | memoryview] = []
        for records in self._records():
            frame += encode_item(records)
            size += len(records.data)
            if size >= ITEM_SIZE_MAX:
                self._follower.apply(b"".join(frame), 0)
                done, unflushed, size, frame = done + size, unflushed + size, 0, []
                on_progress(done, self._backup.records_size)
                if unflushed >= FLUSHED_SIZE:
                    await self._store.checkpoints.take_all()
                    unflushed = 0
                await self._clock.sleep(0)
        self._follower.apply(b"".join(frame), 0)
        for copy in self._backup.logs:
            end = self._store.queue_log(copy.topic, copy.queue_id).written_position
            if end != copy.position:
                raise FormatError(
                    self._packs,
                    f"{copy.topic} queue {copy.queue_id} ends at {end}, not at {copy.position}: "
                    f"{DAMAGED}",
                )

    def _records(self) -> Iterator[Records]:
        """Yields the records of all logs, each of which begins where its first run does.

        Raises:
            FormatError: the backup is damaged.
        """
        for copy in self._backup.logs:
            queue_log = self._store.queue_log(copy.topic, copy.queue_id)
            position, offset = copy.position, copy.offset
            if copy.runs:
                position, offset = copy.runs[0].position, copy.runs[0].offset
            if position:
                queue_log.restart_at(position, offset)
            if not copy.runs:  # an empty segment says where the queue goes on
                queue_log.begin_segment(self._clock.now_ms())
                self._store.committer.unsynced[queue_log] = None
            for run in copy.runs:
                for records in read_run(self._packs, copy.number, run):
                    self.records += len(records.entries) // ENTRY_SIZE
                    epoch = 0 if self._leave_set else records.epoch
                    yield msgspec.structs.replace(records, epoch=epoch)

    def _enter_set(self) -> None:
        """Enters the set to which the directory belongs; the id of a directory is never restored.

        So two members never have one directory id, and a restored member that was in sync is not
        elected before it has caught up.
        """
        backup = self._backup
        if backup.set_id and not self._leave_set:
            self._store.metadata.set_state(SET_ID, backup.set_id)
            self._store.metadata.set_state(EPOCH, str(backup.epoch))
