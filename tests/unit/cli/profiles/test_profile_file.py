"""The file of profiles: what it may say, and what is said of one that is wrong."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from pocketmq.cli.profiles.profile_file import (
    Profile,
    ProfileFile,
    load_profiles,
    profile_path,
    save_profiles,
)
from pocketmq.protocol.errors import ConfigError, OperatingError, UsageError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "config" / "pocketmq" / "profiles.yaml"


def written(path: Path, text: str, mode: int = 0o600) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def refusal(path: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        load_profiles(path)
    return str(caught.value)


def test_what_is_saved_is_read_again_and_is_its_owners(path: Path) -> None:
    profiles = ProfileFile(
        "b", [Profile("a", "h:1;i:2"), Profile("b", "[::1]:9876", "me", "1234: #")]
    )
    save_profiles(path, profiles)
    assert load_profiles(path) == profiles
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    save_profiles(path, ProfileFile())
    assert load_profiles(path) == ProfileFile()


def test_no_file_has_no_profiles(path: Path) -> None:
    assert load_profiles(path) == ProfileFile()


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("profiles:\n- name: a\n  nameserver: h:1\n", 3, "did you mean 'namesrv'?"),
        ("profiles:\n- name: a\n  namesrv: h:1\n- name: b\n  namesrv: h\n", 4, "host:port"),
        ("profiles:\n- name: a b\n  namesrv: h:1\n", 2, "up to 64 letters"),
        ("profiles:\n- name: a\n", 2, "namesrv"),
        ("profiles:\n- name: a\n  namesrv: h:1\n  accessKey: x\n", 2, "give both or none"),
        ("profiles: [\n", 2, "no YAML"),
        ("use: a\nuse: b\n", 2, "stands twice"),
        ("profiles:\n- {name: a, namesrv: 'h:1'}\n- {name: a, namesrv: 'h:2'}\n", 3, "keep one"),
        ("profiles:\n- {name: a, namesrv: 'h:1'}\nuse: b\n", 3, "name one of a"),
    ],
)
def test_a_mistake_is_named_with_file_and_line(
    path: Path, text: str, line: int, reason: str
) -> None:
    said = refusal(written(path, text))
    assert said.startswith(f"{path}, line {line}: ")
    assert reason in said


def test_secrets_that_others_can_read_are_refused_with_the_remedy(path: Path) -> None:
    secret = "profiles:\n- {name: a, namesrv: 'h:1', accessKey: x, secretKey: y}\n"
    assert f"(mode 0640): chmod 600 {path}" in refusal(written(path, secret, 0o640))
    assert load_profiles(written(path, secret)).profiles[0].secret_key == "y"
    plain = written(path, "profiles:\n- {name: a, namesrv: 'h:1'}\n", 0o644)
    assert [profile.name for profile in load_profiles(plain).profiles] == ["a"]


def test_an_unknown_name_is_told_with_those_that_there_are(path: Path) -> None:
    with pytest.raises(UsageError, match=r"no profile 'c', which --profile names; .* has a, b\."):
        ProfileFile(None, [Profile("b", "h:1"), Profile("a", "h:1")]).named("c", "--profile", path)


def test_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OperatingError, match="XDG_CONFIG_HOME"):
        save_profiles(tmp_path / "file" / "profiles.yaml", ProfileFile())


def test_the_path_follows_the_xdg_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("XDG_CONFIG_HOME", "/etc/me")
    assert profile_path() == Path("/etc/me/pocketmq/profiles.yaml")
    for unset in ("", "relative/path"):
        monkeypatch.setenv("XDG_CONFIG_HOME", unset)
        assert profile_path() == Path("/home/me/.config/pocketmq/profiles.yaml")
