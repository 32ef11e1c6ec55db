"""`pocketmq profile …` as people use it, on a cluster that only a profile knows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.commands.here import ok, pocketmq

from pocketmq.testing import LocalCluster


def test_a_profile_from_its_beginning_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    with LocalCluster(topics={"Here": 1}) as cluster:
        ok("profile", "add", "test", "--namesrv", cluster.namesrv)
        ok("profile", "add", "prod", "-n", "10.0.0.1:9876", "--access-key", "me", stdin="hush\n")
        listed = ok("topic", "list", "--profile", "test", "-o", "json")
        assert [row["topic"] for row in json.loads(listed)] == ["Here"]
        ok("profile", "use", "test")
        assert ok("topic", "list", "-o", "json") == listed
    shown = json.loads(ok("profile", "show", "-o", "json"))
    assert (shown["profile"], shown["namesrv"]) == ("test", cluster.namesrv)
    assert shown["chosenBy"] == "profile test, which is in use"
    assert "hush" not in ok("profile", "show", "prod") + ok("profile", "list")
    again = pocketmq("profile", "add", "test", "--namesrv", "h:1")
    assert (again.returncode, "--force" in again.stderr) == (2, True)
    ok("profile", "remove", "test")
    rows = json.loads(ok("profile", "list", "-o", "json"))
    assert [(row["profile"], row["used"]) for row in rows] == [("prod", "")]
    gone = pocketmq("profile", "use", "test")
    assert (gone.returncode, "no profile 'test'" in gone.stderr) == (2, True)


def test_a_mistake_in_the_file_is_told_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    file = tmp_path / "pocketmq" / "profiles.yaml"
    file.parent.mkdir()
    file.write_text("profiles:\n- name: test\n  namesrvs: h:1\n")
    done = pocketmq("topic", "list", "--profile", "test")
    assert done.returncode == 2
    assert f"{file}, line 3: unknown key 'namesrvs'; did you mean 'namesrv'?" in done.stderr
