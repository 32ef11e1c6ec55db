"""Serves backups of a running broker: 31030 and 31031."""

from __future__ import annotations

from pocketmq.broker.backup.source import BackupSource
from pocketmq.broker.backup.wire import decode_wants, encode_parts
from pocketmq.broker.config.config import BrokerConfig
from pocketmq.broker.replication.member import EPOCH
from pocketmq.broker.store.metadata.metadata import SET_ID, Metadata
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.errors import ContentError
from pocketmq.protocol.requests.extensions.backups import (
    BackupLogsRequest,
    BackupLogsResponse,
    BackupTablesRequest,
    BackupTablesResponse,
)
from pocketmq.protocol.wire.command import Command
from pocketmq.runtime.live import Live
from pocketmq.transport.connection import Connection, Handler


class BackupHandlers:
    """Answers what a backup asks for.

    Args:
        source: of what it gets.
        metadata: knows the broker set.
        settings: know the broker's name.
    """

    def __init__(
        self, source: BackupSource, metadata: Metadata, settings: Live[BrokerConfig]
    ) -> None:
        self._source, self._metadata, self._settings = source, metadata, settings

    def table(self) -> dict[int, Handler]:
        """The handlers by request code."""
        return {RequestCode.BACKUP_TABLES: self.tables, RequestCode.BACKUP_LOGS: self.logs}

    async def tables(self, command: Command, _: Connection) -> Command:
        """31030: a page of a snapshot, which is taken for the first page."""
        request = command.read(BackupTablesRequest)
        source, config = self._source, self._settings.now
        if request.snapshot:
            snapshot = source.snapshot(request.snapshot)
        else:
            snapshot = await source.take_snapshot()
        if not 0 <= request.page < max(len(snapshot.pages), 1):
            raise ContentError(
                f"page {request.page} is asked for, the snapshot has {len(snapshot.pages)}"
            )
        header = BackupTablesResponse(
            snapshot=snapshot.name,
            pages=len(snapshot.pages),
            taken_ms=snapshot.taken_ms,
            cluster_name=config.broker_cluster_name,
            broker_name=config.broker_name,
            segment_size=config.segment_size,
            set_id=self._metadata.state(SET_ID) or "",
            epoch=int(self._metadata.state(EPOCH) or 0),
        )
        body = snapshot.pages[request.page] if snapshot.pages else b""
        return Command(ResponseCode.SUCCESS, header=header, body=body)

    async def logs(self, command: Command, _: Connection) -> Command:
        """31031: records of logs."""
        request = command.read(BackupLogsRequest)
        wants = decode_wants(command.body)
        done, parts = await self._source.read(request.snapshot, wants)
        return Command(
            ResponseCode.SUCCESS, header=BackupLogsResponse(done=done), body=encode_parts(parts)
        )
