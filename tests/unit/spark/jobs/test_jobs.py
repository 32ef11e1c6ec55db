"""What jobs say of themselves, and why they failed."""

from __future__ import annotations

from pathlib import Path

import pytest

from pocketmq.spark import IngestOptions, IngestReport, OptionError, ingest
from pocketmq.spark.errors import RequirementError
from pocketmq.spark.jobs.failures import reason_of
from pocketmq.spark.requirements import check_java

TASK_FAILED = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "sending.py", line 10, in send
pocketmq.protocol.errors.UnavailableError: code 14: the disk is full

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "writer.py", line 96, in write
pocketmq.client.errors.SendFailedError: a message for topic T was not sent (a: the disk is full)
"""


def test_the_reason_is_the_last_error_of_this_project() -> None:
    expected = "a message for topic T was not sent (a: the disk is full)"
    assert reason_of(RuntimeError(TASK_FAILED)) == expected


def test_it_may_stand_in_the_line_of_spark() -> None:
    said = (
        "[ERROR] Failed to plan: pocketmq.spark.errors.OptionError: no: that: is wrong\n STATE: 1"
    )
    assert reason_of(RuntimeError(said)) == "no: that: is wrong"


def test_without_one_it_is_what_spark_says() -> None:
    assert reason_of(RuntimeError("[PATH_NOT_FOUND] There is no file.\n\tat a.b")) == (
        "There is no file."
    )
    assert reason_of(RuntimeError("\n first line\nsecond")) == "first line"
    assert reason_of(KeyboardInterrupt()) == "KeyboardInterrupt"


def test_a_report_in_one_line() -> None:
    report = IngestReport("T", 3_000_000, 10.0, {"a:0": 1_000_000, "a:1": 2_000_000})
    assert str(report) == (
        "3,000,000 rows in 10.0 s, 300,000 rows/s, 2 queues with 1,000,000 to 2,000,000 rows each"
    )
    assert "12 of them not confirmed" in str(IngestReport("T", 12, 1.0, {"a:0": 12}, 12))
    assert IngestReport("T", 0, 0.0, {}).rows_per_s == 0


def test_files_without_rows_are_named() -> None:
    empty = tuple(f"f{i}.csv" for i in range(12))
    text = str(IngestReport("T", 0, 1.0, {}, files_loaded=12, files_without_rows=empty))
    assert text.startswith(
        "nothing was loaded: the source has no rows; 12 of 12 files have no rows"
    )
    assert text.endswith("f8.csv, f9.csv and 2 more")
    one = IngestReport(
        "T", 3, 1.0, {"a:0": 3}, files_done=5, files_loaded=2, files_without_rows=("x",)
    )
    assert str(one).endswith("all in 1 queue; 1 of 2 files have no rows: x")
    assert one.document()["filesWithoutRows"] == ["x"]
    assert (
        str(IngestReport("T", 0, 0.0, {}, files_done=5))
        == "nothing new: 5 files were loaded before"
    )


def test_options_are_checked_before_spark_is_started() -> None:
    with pytest.raises(OptionError, match="illegal"):
        ingest(IngestOptions("rows.csv", "no topic", namesrv="a:9876"))


def fake_java(directory: Path, version: str) -> None:
    java = directory / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)


def test_no_java_and_old_java_are_named_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "none"))
    with pytest.raises(RequirementError, match=r"cannot be started.*install Java 17"):
        check_java()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RequirementError, match=r"none on the PATH.*install Java 17"):
        check_java()
    monkeypatch.setenv("PATH", "/bin:/usr/bin")
    for version, fits in (("1.8.0_402", False), ("11.0.2", False), ("17.0.15", True), ("21", True)):
        home = tmp_path / version
        fake_java(home, version)
        monkeypatch.setenv("JAVA_HOME", str(home))
        if fits:
            check_java()
        else:
            with pytest.raises(RequirementError, match="is Java"):
                check_java()
