"""Which sources `pocketmq replay` gives to Spark, and options that do not fit."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.commands.here import pocketmq

from pocketmq.cli.jobs.spark_replay import is_for_spark, refuse
from pocketmq.protocol.errors import UsageError


def test_a_recording_is_a_file_and_everything_else_spark_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("talk").touch()
    Path("flights-out").mkdir()
    recordings = ["-", "talk", str(tmp_path / "talk"), "gone.jsonl", "some/where"]
    assert [is_for_spark(source) for source in recordings] == [False] * 5
    jobs = ["flights-out", str(tmp_path), "hdfs://names/out", "%DLQ%billing", "Orders"]
    assert [is_for_spark(source) for source in jobs] == [True] * 5


def test_options_of_the_other_kind() -> None:
    refuse("of a recording only", {"--from": False, "--count": 0, "--queue": None})
    with pytest.raises(UsageError, match="--rate, --set: an option of a topic"):
        refuse("of a topic or directory only", {"--rate": 5, "--set": ["a=b"], "--cores": None})


def test_without_spark_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    done = pocketmq("replay", "Flights", "--topic", "Orders")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "pocketmq: pyspark is not installed: install it with: pip install 'pocketmq[spark]'; "
        "`pocketmq tail 'Flights' --offset beginning --exit -f json | pocketmq produce Orders "
        "-f json` sends a topic's messages again without Spark\n"
    )
