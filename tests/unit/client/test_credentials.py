"""Where a client's credentials come from."""

from __future__ import annotations

from pathlib import Path

import pytest

from pocketmq.client.credentials import (
    credentials_text,
    default_credentials,
    read_credentials,
    use_credentials,
)
from pocketmq.client.instance.instance import ClientInstance
from pocketmq.protocol.errors import ConfigError
from pocketmq.protocol.signing import Credentials

ALICE = Credentials("alice", "s3cret=:'")
BOB = Credentials("bob", "other", "token")


@pytest.fixture(autouse=True)
def empty_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CREDENTIALS", "ACCESS_KEY", "SECRET_KEY", "SECURITY_TOKEN"):
        monkeypatch.delenv(f"POCKETMQ_{name}", raising=False)


def written(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


@pytest.mark.parametrize("credentials", [Credentials("alice", "s3cret=:"), BOB])
def test_a_file_has_what_was_written(tmp_path: Path, credentials: Credentials) -> None:
    path = written(tmp_path / "key", credentials_text(credentials))
    assert read_credentials(path) == credentials


def test_mqadmins_file_is_read(tmp_path: Path) -> None:
    text = '# for mqadmin\naccessKey: rocketmq\nsecretKey: "12345678"\n'
    path = written(tmp_path / "tools.yml", text)
    assert read_credentials(path) == Credentials("rocketmq", "12345678")


@pytest.mark.parametrize(
    "text", ["", "AccessKey=alice\n", "SecretKey=x\n", "AccessKey=\nSecretKey=x"]
)
def test_a_file_without_both_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match="AccessKey=NAME and SecretKey=SECRET"):
        read_credentials(written(tmp_path / "key", text))


def test_a_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "key", credentials_text(ALICE), 0o640)
    with pytest.raises(ConfigError, match=r"mode 0640\): chmod 600"):
        read_credentials(path)


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "key"
    if content is not None:
        path.write_bytes(content)
        path.chmod(0o600)
    with pytest.raises(ConfigError, match=f"{path} cannot be read"):
        read_credentials(path)


def test_the_environment_names_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert default_credentials() is None
    monkeypatch.setenv("POCKETMQ_ACCESS_KEY", "bob")
    with pytest.raises(ConfigError, match="POCKETMQ_SECRET_KEY is not set"):
        default_credentials()
    monkeypatch.setenv("POCKETMQ_SECRET_KEY", "other")
    monkeypatch.setenv("POCKETMQ_SECURITY_TOKEN", "token")
    assert default_credentials() == BOB
    path = written(tmp_path / "key", "AccessKey=alice\nSecretKey=x\n")
    monkeypatch.setenv("POCKETMQ_CREDENTIALS", str(path))
    assert default_credentials() == Credentials("alice", "x")


def test_what_is_nearer_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POCKETMQ_ACCESS_KEY", "env")
    monkeypatch.setenv("POCKETMQ_SECRET_KEY", "env")
    given = Credentials("given", "x")
    try:
        use_credentials(ALICE)
        assert ClientInstance("127.0.0.1:1").credentials == ALICE
        assert ClientInstance("127.0.0.1:1", credentials=given).credentials == given
    finally:
        use_credentials(None)
    assert ClientInstance("127.0.0.1:1").credentials == Credentials("env", "env")


def test_settings_do_not_show_the_secret() -> None:
    instance = ClientInstance("127.0.0.1:1", credentials=ALICE)
    assert ALICE.secret_key not in repr(instance.settings)
    with pytest.raises(ConfigError) as caught:
        ClientInstance("127.0.0.1:1", credentials=ALICE.secret_key)
    assert ALICE.secret_key not in str(caught.value)
