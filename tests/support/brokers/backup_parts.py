"""Backups in tests: the broker is asked over its port, as the command does."""

from __future__ import annotations

from pathlib import Path

from pocketmq.broker.backup.copying import BackupOptions, BackupReport, back_up
from pocketmq.protocol.requests.extensions.backups import (
    BackupLogsRequest,
    BackupLogsResponse,
    BackupTablesRequest,
    BackupTablesResponse,
)
from pocketmq.runtime.clock import Clock, SystemClock
from pocketmq.transport.pool import ConnectionPool

TIMEOUT_MS = 60_000


class AskedBroker:
    """A broker at an address; `before_logs` is called before each request for records."""

    def __init__(self, pool: ConnectionPool, address: str) -> None:
        self._pool, self._address = pool, address
        self.wants = 0

    async def tables(self, snapshot: str, page: int) -> tuple[BackupTablesResponse, bytes]:
        request = BackupTablesRequest(snapshot=snapshot, page=page)
        answer = await self._pool.ask(self._address, request, TIMEOUT_MS)
        return answer.read(BackupTablesResponse), bytes(answer.body)

    async def before_logs(self) -> None:
        """Does nothing; tests replace it."""

    async def logs(self, snapshot: str, wants: bytes) -> tuple[int, bytes]:
        await self.before_logs()
        self.wants += 1
        request = BackupLogsRequest(snapshot=snapshot)
        answer = await self._pool.ask(self._address, request, TIMEOUT_MS, wants)
        return answer.read(BackupLogsResponse).done, bytes(answer.body)


async def backed_up(
    directory: Path,
    pool: ConnectionPool,
    address: str,
    clock: Clock | None = None,
    options: BackupOptions | None = None,
) -> BackupReport:
    """Makes a backup of the broker at an address."""
    broker = AskedBroker(pool, address)
    return await back_up(directory, broker, clock or SystemClock(), options)
