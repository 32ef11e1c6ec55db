"""Backups of a store without a broker: the source is asked directly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.store.stores import assert_sound, bodies, open_store

from pocketmq.broker.backup.copying import BackupReport, back_up
from pocketmq.broker.backup.restoring import restore
from pocketmq.broker.backup.source import BackupSource
from pocketmq.broker.backup.wire import decode_wants, encode_parts
from pocketmq.broker.store.store import MessageStore
from pocketmq.protocol.requests.extensions.backups import BackupTablesResponse
from pocketmq.runtime.clock import Clock

NAMES: dict[str, Any] = {"cluster_name": "c", "broker_name": "b", "segment_size": 1000}


class AskedStore:
    """Answers a backup from a store.

    Attributes:
        read_size: bytes that were read of logs.
        asked: requests for records.
    """

    def __init__(self, store: MessageStore) -> None:
        self.read_size = self.asked = 0

        async def nothing() -> None:
            return

        def took(_: float, size: int) -> None:
            self.read_size += size

        self.source = BackupSource(store, nothing, nothing, took, "run")

    async def tables(self, snapshot: str, page: int) -> tuple[BackupTablesResponse, bytes]:
        taken = self.source.snapshot(snapshot) if snapshot else await self.source.take_snapshot()
        head = BackupTablesResponse(
            snapshot=taken.name, pages=len(taken.pages), taken_ms=taken.taken_ms, **NAMES
        )
        return head, taken.pages[page] if taken.pages else b""

    async def before_logs(self) -> None:
        """Does nothing; tests replace it."""

    async def logs(self, snapshot: str, wants: bytes) -> tuple[int, bytes]:
        await self.before_logs()
        self.asked += 1
        done, parts = await self.source.read(snapshot, decode_wants(wants))
        return done, encode_parts(parts)


async def copied(
    store: MessageStore, directory: Path, clock: Clock, **options: Any
) -> BackupReport:
    """Makes a backup of a store."""
    return await back_up(directory, AskedStore(store), clock, **options)


async def restored_bodies(
    directory: Path, target: Path, clock: Clock, queue_id: int = 0, **options: Any
) -> list[bytes]:
    """Restores a backup; what the queue holds then."""
    await restore(directory, target, clock, **options)
    assert_sound(target)
    store = open_store(target, clock)
    try:
        return bodies(store, queue_id=queue_id)
    finally:
        await store.close()
