"""The command line that the files of jobs share."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.spark.errors import JobError, OptionError
from pocketmq.spark.jobs.command_line import JobParser, instant_ms
from pocketmq.spark.jobs.reports import RangeReport, ReplayReport, Route
from pocketmq.spark.reading.offsets import Range

QUEUE = MessageQueue("T", "broker-a", 3)


def report(**changes: Any) -> RangeReport:
    given = {"job": "export", "topic": "T", "to_dir": "out", "rows": 10, "seconds": 2.0}
    return RangeReport(**{**given, "ranges": (Range(QUEUE, 0, 10),), **changes})


def test_options_results_and_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    parser = JobParser("A job.")
    parser.add_instant("--since", "from then on")
    parser.add_pairs("--set", "columns", "edits")
    seen: dict[str, Any] = {}

    def job(given: dict[str, Any]) -> RangeReport:
        seen.update(given)
        return report()

    words = ["--since", "2026-01-01T00:00:00Z", "--set", "value=a=b", "--dry-run", "-o", "json"]
    assert parser.run(words, job) == 0
    assert seen["since_ms"] == 1_767_225_600_000
    assert seen["columns"] == {"value": "a=b"}
    assert seen["dry_run"] is True
    document = json.loads(capsys.readouterr().out)
    assert document["rows"] == 10
    assert document["queues"][0]["messages"] == 10

    def failing(error: BaseException) -> int:
        def fail(_: dict[str, Any]) -> RangeReport:
            raise error

        return parser.run([], fail)

    assert failing(KeyboardInterrupt()) == 130
    assert capsys.readouterr().err == "interrupted\n"
    assert failing(OptionError("wrong words")) == 2
    assert failing(JobError("it", "no disk")) == 1
    assert capsys.readouterr().err == "error: wrong words\nerror: it failed: no disk\n"
    assert parser.run([], lambda _: report(lost=(Range(QUEUE, 10, 12),))) == 3
    assert "2 messages were gone" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["--since", "noon"], ["--set", "value"], ["--unknown"]])
def test_words_that_do_not_fit(words: list[str]) -> None:
    parser = JobParser("A job.")
    parser.add_instant("--since", "from then on")
    parser.add_pairs("--set", "columns", "edits")
    with pytest.raises(SystemExit) as caught:
        parser.run(words, lambda _: report())
    assert caught.value.code == 2


def test_times_have_offsets() -> None:
    assert instant_ms("1970-01-01T01:00:00+01:00") == 0
    assert instant_ms("1970-01-01T00:00:01.5Z") == 1500


def test_reports_in_one_line() -> None:
    assert str(report()) == "10 rows in 2.0 s, 5 rows/s"
    assert str(report(is_dry=True)) == "10 messages would be written to out"
    assert str(report(ranges=())) == "nothing new in T"
    assert report(is_dry=True).queue_rows()[0]["state"] == "planned"
    routes = (Route("%DLQ%g", "T", 3),)
    sent = ReplayReport(
        source="%DLQ%g", routes=routes, messages_read=4, seconds=1.0, checkpoint="c"
    )
    assert str(sent) == "3 of 4 messages sent in 1.0 s, 3 a second"
    assert sent.document()["routes"] == [{"from": "%DLQ%g", "to": "T", "messages": 3}]


def test_a_replay_tells_what_was_gone() -> None:
    given: dict[str, Any] = {
        "source": "T",
        "routes": (Route("T", "U", 5),),
        "messages_read": 5,
        "seconds": 1.0,
    }
    whole = ReplayReport(**given, checkpoint="c")
    assert whole.exit_code == 0
    holed = ReplayReport(**given, checkpoint="c", lost=(Range(QUEUE, 3, 5),))
    assert holed.exit_code == 3
    assert str(holed).startswith(str(whole))
    assert str(holed).endswith(
        "2 messages were gone before they could be read: T@broker-a:3 3 to 5"
    )
    lost = {"topic": "T", "broker": "broker-a", "queue": 3, "from": 3, "to": 5, "messages": 2}
    assert holed.document()["lost"] == [lost]
