"""Requests of a backup of a running broker."""

from __future__ import annotations

from pocketmq.protocol.requests.extensions.backups import BackupLogsRequest, BackupTablesRequest
from pocketmq.protocol.wire.command import Command


def test_fields_are_told_by_name() -> None:
    for request, code, fields in (
        (BackupTablesRequest(), 31030, {"snapshot": "", "page": "0"}),
        (BackupTablesRequest(snapshot="a-1", page=2), 31030, {"snapshot": "a-1", "page": "2"}),
        (BackupLogsRequest(snapshot="a-1"), 31031, {"snapshot": "a-1"}),
    ):
        command = Command(request.code, header=request)
        assert (int(command.code), command.fields) == (code, fields)
