"""The arbiter's file: compare-and-set, durable, and for one name server only."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pocketmq.namesrv import arbiter
from pocketmq.namesrv.arbiter import ArbiterEntry, ArbiterFile, ArbiterFileError
from pocketmq.protocol.errors import ConfigError


@pytest.fixture
def file(tmp_path: Path) -> Iterator[ArbiterFile]:
    file = ArbiterFile(tmp_path / "deeper" / "arbiter.db")
    yield file
    file.close()


def test_a_value_is_replaced_only_at_its_version(file: ArbiterFile) -> None:
    assert file.read("a") == ArbiterEntry(b"", 0)
    assert file.write("a", b"one", 0) == (1, True)
    assert file.write("a", b"too late", 0) == (1, False)
    assert file.write("a", b"two", 1) == (2, True)
    assert file.read("a") == ArbiterEntry(b"two", 2)
    assert file.read("b") == ArbiterEntry(b"", 0)


def test_values_are_there_after_a_restart(tmp_path: Path) -> None:
    first = ArbiterFile(tmp_path / "arbiter.db")
    first.write("a", b"one", 0)
    first.close()
    again = ArbiterFile(tmp_path / "arbiter.db")
    assert again.read("a") == ArbiterEntry(b"one", 1)
    again.close()


def test_two_name_servers_do_not_share_a_file(tmp_path: Path, file: ArbiterFile) -> None:
    file.write("a", b"one", 0)
    with pytest.raises(ConfigError, match="must be a file of this name server alone"):
        ArbiterFile(tmp_path / "deeper" / "arbiter.db")


def test_what_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "arbiter.db"
    path.write_bytes(b"something else, and long enough to be looked at by SQLite" * 10)
    with pytest.raises(ConfigError, match="arbiterPath"):
        ArbiterFile(path)


def test_keys_are_bounded(file: ArbiterFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arbiter, "KEYS_MAX", 1)
    file.write("a", b"one", 0)
    with pytest.raises(ArbiterFileError, match="1 broker sets"):
        file.write("b", b"one", 0)
    assert file.write("a", b"two", 1) == (2, True)
