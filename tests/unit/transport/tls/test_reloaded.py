"""A server's context follows its files, and its end is told in time."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from support.peers.certificates import CertificateFiles

from pocketmq.protocol.errors import ConfigError
from pocketmq.testing.clock import VirtualClock
from pocketmq.transport.tls.reloaded import ReloadedContext

DAY_S = 86_400
HOSTS = ["localhost"]


@pytest.fixture
def files(tmp_path: Path) -> CertificateFiles:
    return CertificateFiles(tmp_path)


def test_stays_while_nothing_changes(files: CertificateFiles, clock: VirtualClock) -> None:
    reloaded = ReloadedContext(files.server(), clock)
    before = reloaded.context
    reloaded.look()
    assert reloaded.context is before


def test_follows_new_files(
    files: CertificateFiles, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    reloaded = ReloadedContext(files.server(), clock)
    before = reloaded.context
    files.renew(HOSTS, clock)
    with caplog.at_level(logging.INFO, "pocketmq.transport"):
        reloaded.look()
    assert reloaded.context is not before
    assert "new connections get the certificate of" in caplog.text


def test_a_half_replaced_pair_leaves_the_old_one(
    files: CertificateFiles, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    reloaded = ReloadedContext(files.server(), clock)
    before, old_key = reloaded.context, Path(files.key_path).read_bytes()
    files.renew(HOSTS, clock)
    new_key = Path(files.key_path).read_bytes()
    Path(files.key_path).write_bytes(old_key)
    for _ in range(3):
        reloaded.look()
    assert reloaded.context is before
    assert caplog.text.count("is not the key of the certificate") == 1
    assert "new connections get the certificate from before" in caplog.text
    Path(files.cert_path).unlink()
    reloaded.look()
    assert reloaded.context is before
    files.renew(HOSTS, clock)
    reloaded.look()
    assert reloaded.context is not before
    assert new_key != old_key


def test_an_expired_one_is_refused_and_never_replaces_another(
    files: CertificateFiles, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    reloaded = ReloadedContext(files.server(), clock)
    before = reloaded.context
    two_days_ago = VirtualClock(clock.now_ms() - 2 * DAY_S * 1000)
    files.renew(HOSTS, two_days_ago, days=1)
    reloaded.look()
    assert reloaded.context is before
    with pytest.raises(ConfigError, match=r"cert\.pem has expired 1\.0 days ago: renew it"):
        ReloadedContext(files.server(), clock)


async def test_the_end_is_told_once_a_day(
    files: CertificateFiles, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    files.renew(HOSTS, clock, days=32)
    reloaded = ReloadedContext(files.server(), clock)
    assert caplog.text == ""
    levels = []
    for _ in range(34):
        await clock.advance(DAY_S)
        for _ in range(3):
            reloaded.look()
        levels.append([record.levelname for record in caplog.records])
        caplog.clear()
    warned = [["WARNING"]] * 23
    assert levels == [[], [], *warned, *[["ERROR"]] * 9]


def test_a_key_that_others_may_read_is_told(
    files: CertificateFiles, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    ReloadedContext(files.server(), clock)
    assert caplog.text == ""
    Path(files.key_path).chmod(0o640)
    ReloadedContext(files.server(), clock)
    assert "key.pem: chmod 600 it" in caplog.text


def test_what_is_no_certificate_is_named(files: CertificateFiles, clock: VirtualClock) -> None:
    Path(files.cert_path).write_text("nothing")
    with pytest.raises(ConfigError, match=r"cert\.pem"):
        ReloadedContext(files.server(), clock)
