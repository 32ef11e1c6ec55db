"""Requests of a backup of a running broker (PocketMQ's own): 31030 and 31031."""

from __future__ import annotations

from typing import ClassVar

from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.wire.header import Header, RequestHeader


class BackupTablesRequest(RequestHeader, kw_only=True):
    """Asks for a broker's metadata, and where each of its logs ends, of one moment (31030).

    Attributes:
        snapshot: whose next page is asked for; empty to have a snapshot taken.
        page: counted from 0.
    """

    code: ClassVar[RequestCode] = RequestCode.BACKUP_TABLES

    snapshot: str = ""
    page: int = 0


class BackupTablesResponse(Header, kw_only=True):
    """Says of which snapshot the page in the body is.

    Attributes:
        snapshot: names it in further requests.
        pages: how many there are.
        taken_ms: when it was taken.
        cluster_name, broker_name: of the broker.
        segment_size: bytes of records in one file of its logs.
        set_id, epoch: of the broker set that the broker belongs to; empty and 0 without a set.
    """

    snapshot: str
    pages: int
    taken_ms: int
    cluster_name: str
    broker_name: str
    segment_size: int
    set_id: str = ""
    epoch: int = 0


class BackupLogsRequest(RequestHeader, kw_only=True):
    """Asks for records of logs, up to where the logs ended in a snapshot (31031).

    The body says which (`broker.backup.wire.Want`).
    """

    code: ClassVar[RequestCode] = RequestCode.BACKUP_LOGS

    snapshot: str


class BackupLogsResponse(Header, kw_only=True):
    """Tells how many of the wants are fulfilled; the body has the answers to them in order."""

    done: int
