"""Which cluster a command means, and that every command that asks one can be told by a profile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pocketmq.cli.main import command
from pocketmq.cli.profiles.profile_file import Profile, ProfileFile, profile_path, save_profiles
from pocketmq.cli.profiles.target import NAMESRV_VARIABLE, PROFILE_VARIABLE, choose, chosen_target
from pocketmq.protocol.errors import UsageError


@pytest.fixture(autouse=True)
def profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv(PROFILE_VARIABLE, raising=False)
    monkeypatch.delenv(NAMESRV_VARIABLE, raising=False)
    three = [Profile(name, f"{name}:1") for name in ("option", "variable", "used")]
    save_profiles(profile_path(), ProfileFile("used", three))


def test_the_order_of_precedence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step takes away what decided before."""
    monkeypatch.setenv(PROFILE_VARIABLE, "variable")
    assert choose("a:1", None, "e:1").namesrv == "a:1"
    assert choose(None, "option", "e:1").namesrv == "option:1"
    assert choose(None, None, "e:1").namesrv == "e:1"
    assert choose() == ("variable:1", "profile variable, by POCKETMQ_PROFILE", Profile("variable", "variable:1"))  # noqa: E501  # fmt: skip
    monkeypatch.delenv(PROFILE_VARIABLE)
    assert choose().namesrv == "used:1"
    save_profiles(profile_path(), ProfileFile(None, [Profile("idle", "idle:1")]))
    assert choose() == ("127.0.0.1:9876", "the default", None)


def test_two_clusters_on_the_command_line_are_refused() -> None:
    with pytest.raises(UsageError, match="leave one out"):
        choose("a:1", "option")


def test_a_broken_file_troubles_only_whom_it_concerns(monkeypatch: pytest.MonkeyPatch) -> None:
    profile_path().write_text("no: such key\n")
    assert choose("a:1").namesrv == "a:1"
    assert choose(None, None, "e:1").namesrv == "e:1"
    with pytest.raises(UsageError, match=r"profiles\.yaml, line 1"):
        choose()


def commands(group: Any, *words: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, inner in getattr(group, "commands", {}).items():
        yield (*words, name), inner
        yield from commands(inner, *words, name)


def test_every_command_that_asks_a_cluster_takes_a_profile() -> None:
    asking = {
        words: [parameter.name for parameter in one.params]
        for words, one in commands(command())
        if any(parameter.name == "namesrv" for parameter in one.params)
    }
    own = {("health",), ("profile", "add")}  # they mean the server, or the address, that is named
    assert {words for words, names in asking.items() if "profile" not in names} == own
    assert {("topic", "list"), ("send",), ("ingest",), ("cluster", "list")} < asking.keys()


@pytest.mark.parametrize(
    ("words", "environment", "namesrv"),
    [
        (["send", "T", "x", "--profile", "option"], "e:1", "option:1"),
        (["--profile", "option", "send", "T", "x"], "e:1", "option:1"),
        (["send", "T", "x", "-n", "127.0.0.1:9876"], "e:1", "127.0.0.1:9876"),
        (["send", "T", "x"], "e:1", "e:1"),
        (["send", "T", "x"], None, "used:1"),
    ],
)
def test_the_command_line_and_the_environment_are_told_apart(
    words: list[str], environment: str | None, namesrv: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if environment is not None:
        monkeypatch.setenv(NAMESRV_VARIABLE, environment)
    root = command()
    with root.make_context("pocketmq", list(words)) as outer:
        rest = words[words.index("send") + 1 :]
        with root.commands["send"].make_context("send", rest, parent=outer) as context:
            assert context.params["namesrv"] == namesrv
            assert chosen_target(context).namesrv == namesrv
