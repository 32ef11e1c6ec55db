"""The lines of the audit, and its file."""

from __future__ import annotations

import json
import logging
import stat
from pathlib import Path
from typing import Any

import pytest

from pocketmq.auth.audit_log import audit as audits
from pocketmq.auth.audit_log.audit import PERIOD_S, REFUSALS_MAX, Audit
from pocketmq.auth.audit_log.file import FILES_MAX, AuditFile
from pocketmq.auth.guard import USER
from pocketmq.auth.refused import RefusedRequest
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.errors import ConfigError, ContentError, ResponseError, response_error
from pocketmq.protocol.wire.command import Command
from pocketmq.testing.clock import VirtualClock
from pocketmq.transport.connection import Connection, Handler, Reply


class Audited:
    """An audit that is read."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.written: list[dict[str, Any]] = []
        self.audit = Audit("broker-a", clock, [lambda line: self.written.append(json.loads(line))])
        self.value = 1

    def connection(self) -> Connection:
        connection = Connection(self.clock, {})
        connection.attributes[USER] = "alice"
        connection.remote_address = "10.1.2.3:55"
        return connection

    def guarded(self, handler: Handler, *, has_state: bool = True) -> Handler:
        return self.audit.guard(handler, (lambda _: {"value": self.value}) if has_state else None)

    def change(self, command: Command, connection: Connection) -> Reply:
        self.value += 1
        return Command(ResponseCode.SUCCESS)

    def refuse(self, command: Command, connection: Connection) -> Reply:
        raise response_error(ResponseCode.SYSTEM_ERROR, "no disk")

    async def change_later(self, command: Command, connection: Connection) -> Command | None:
        return self.change(command, connection)  # type: ignore[return-value]

    async def refuse_later(self, command: Command, connection: Connection) -> Command | None:
        self.refuse(command, connection)
        return None

    def refusal(self, user: str = "zz", code: int = 310) -> RefusedRequest:
        return RefusedRequest(self.connection(), code, user, False, "User:zz is not found.", False)


def command(**fields: str) -> Command:
    made = Command(RequestCode.UPDATE_AND_CREATE_TOPIC)
    made.raw = fields
    return made


@pytest.fixture
def audited(clock: VirtualClock) -> Audited:
    return Audited(clock)


SIGNED = {"AccessKey": "alice", "Signature": "hidden-signature", "SecurityToken": "hidden-token"}


async def test_a_change_is_told_with_what_was_before_and_after(audited: Audited) -> None:
    for handler in (audited.change, audited.change_later):
        audited.value = 1
        reply = audited.guarded(handler)(command(topic="t", **SIGNED), audited.connection())
        if not isinstance(reply, Command):
            assert reply is not None
            await reply
        assert audited.written.pop() == {
            "timeMs": audited.clock.now_ms(),
            "server": "broker-a",
            "event": "changed",
            "address": "10.1.2.3:55",
            "code": 17,
            "request": "UPDATE_AND_CREATE_TOPIC",
            "user": "alice",
            "fields": {"topic": "t"},
            "result": 0,
            "before": {"value": 1},
            "after": {"value": 2},
        }


async def test_a_change_that_fails_is_told_with_its_reason(audited: Audited) -> None:
    with pytest.raises(ResponseError):
        audited.guarded(audited.refuse)(command(), audited.connection())
    later = audited.guarded(audited.refuse_later)(command(), audited.connection())
    assert later is not None
    assert not isinstance(later, Command)
    with pytest.raises(ResponseError):
        await later
    for line in audited.written:
        assert (line["result"], line["reason"]) == (1, "no disk")
        assert "after" not in line
    assert len(audited.written) == 2


async def test_a_change_is_told_of_who_asked_for_it(audited: Audited) -> None:
    connection = audited.connection()
    reply = audited.guarded(audited.change_later)(command(), connection)
    connection.attributes[USER] = "bob"  # who uses the connection, too
    assert reply is not None
    assert not isinstance(reply, Command)
    await reply
    assert audited.written[0]["user"] == "alice"


async def test_long_fields_are_cut_and_unreadable_states_left_out(audited: Audited) -> None:
    def unreadable(_: Command) -> object:
        raise ContentError("no JSON")

    guarded = audited.audit.guard(audited.change, unreadable)
    guarded(command(topic="t" * 10_000), audited.connection())
    assert len(audited.written[0]["fields"]["topic"]) == 255
    assert audited.written[0]["before"] is None
    audited.guarded(audited.change, has_state=False)(command(), audited.connection())
    assert "before" not in audited.written[1]


async def test_many_refusals_of_a_kind_are_counted(audited: Audited) -> None:
    for _ in range(REFUSALS_MAX + 90):
        audited.audit.refused(audited.refusal())
    audited.audit.refused(audited.refusal(user="yy"))
    assert len(audited.written) == REFUSALS_MAX + 1
    assert audited.written[0]["reason"] == "User:zz is not found."
    assert audited.written[0]["isProven"] is False
    await audited.clock.advance(PERIOD_S)
    assert [line["leftOut"] for line in audited.written[REFUSALS_MAX + 1 :]] == [90]
    audited.audit.refused(audited.refusal())
    assert audited.written[-1]["request"] == "SEND_MESSAGE_V2"


async def test_kinds_are_bounded(audited: Audited, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audits, "CAUSES_MAX", 5)
    for number in range(100):
        audited.audit.refused(audited.refusal(code=100_000 + number))
    assert len(audited.written) == 5 + REFUSALS_MAX


class TestFile:
    def test_it_is_private_and_begins_anew_at_its_size(
        self, tmp_path: Path, clock: VirtualClock
    ) -> None:
        path = tmp_path / "made" / "audit.log"
        file = AuditFile(path, 1_000, clock)
        for number in range(200):
            file.write(b'{"number": %d, "padding": "%s"}' % (number, b"x" * 100))
        file.close()
        files = sorted(path.parent.iterdir())
        assert len(files) == 1 + FILES_MAX
        assert {stat.S_IMODE(found.stat().st_mode) for found in files} == {0o600}
        assert all(found.stat().st_size <= 1_000 for found in files)
        assert json.loads(path.read_text().splitlines()[-1])["number"] == 199

    def test_a_full_disk_stops_nobody_and_is_told_now_and_then(
        self, clock: VirtualClock, caplog: pytest.LogCaptureFixture
    ) -> None:
        full = Path("/dev/full")
        if not full.exists():
            pytest.skip("the system has no /dev/full")
        caplog.set_level(logging.ERROR)
        file = AuditFile(full, 1 << 30, clock)
        for _ in range(3):
            file.write(b"{}")
        assert caplog.text.count("the audit cannot be written to /dev/full") == 1
        file.close()
        assert "the end of the audit cannot be written" in caplog.text

    def test_a_place_that_cannot_be_written_is_named(
        self, tmp_path: Path, clock: VirtualClock
    ) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(ConfigError, match="auditLogPath: "):
            AuditFile(tmp_path / "file" / "audit.log", 1_000, clock)
