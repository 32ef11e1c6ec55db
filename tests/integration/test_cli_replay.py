"""`pocketmq record` and `replay`, on a real broker; pauses pass in virtual time."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from pathlib import Path

import pytest
from integration.test_cli_pipes import essence, stored
from support.commands.here import Command, here
from support.commands.process import COMMAND, TIMEOUT_S
from support.interop.clusters import Cluster

from pocketmq.cli.pipes.outflow import Destination, Outcome
from pocketmq.cli.pipes.playback import Playback, play
from pocketmq.client import Message, blocking
from pocketmq.protocol.messages.message_json import document_of_line
from pocketmq.runtime.process import run
from pocketmq.testing.clock import VirtualClock

__all__ = ["here"]

TOPICS = ("RecordA", "RecordB", "RecordC", "RecordD", "PlayPauses", "PlaySpeed", "PlayBad",
          "PlayStop", "PlayFrom", "PlayIn")  # fmt: skip


@pytest.fixture(scope="module")
def cluster(one_broker: Cluster) -> Cluster:
    with blocking.Admin(one_broker.namesrv) as admin:
        for name in TOPICS:
            admin.create_topic(name, 2)
    return one_broker


@pytest.fixture
def names(cluster: Cluster) -> tuple[str, str]:
    return ("--namesrv", cluster.namesrv)


def recording(path: Path, topic: str | None, *times_ms: int) -> str:
    lines = []
    for number, time_ms in enumerate(times_ms):
        line = {"body": str(number), "queue": number % 2, "storeTimestamp": 1_000_000 + time_ms}
        lines.append(json.dumps(line | ({"topic": topic} if topic else {})))
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def bodies(cluster: Cluster, topic: str, count: int) -> list[bytes]:
    return [m.body for m in run(stored(cluster.namesrv, topic, count))]


def test_a_recording_is_played_into_another_topic(
    cluster: Cluster, names: tuple[str, str], here: Command, tmp_path: Path
) -> None:
    with blocking.Producer("pg", cluster.namesrv) as producer:
        for number in range(50):
            body, key = bytes([number, 0, 255]), str(number)
            producer.send(Message("RecordA", body, keys=key, properties={"n": key}))
    first = run(stored(cluster.namesrv, "RecordA", 50))
    code, text, errors = here("record", "RecordA", "-O", "beginning", "-e", *names)
    assert (code, errors) == (0, "50 messages of RecordA recorded")
    times = [document_of_line(line.encode()).store_timestamp or 0 for line in text.splitlines()]
    assert len(times) == 50
    assert times == sorted(times)
    path = tmp_path / "a.jsonl"
    path.write_text(text)
    words = ("--topic", "RecordB", "--speed", "max", "--keep-queue", "--keep-ids")
    code, out, errors = here("replay", str(path), *words, "-o", "json", *names)
    assert (code, json.loads(out)["messages"], json.loads(out)["next"]) == (0, 50, 51)
    assert "50 messages replayed to RecordB in" in errors
    second = run(stored(cluster.namesrv, "RecordB", 50))
    assert essence(first) == essence(second)
    assert {m.msg_id for m in first} == {m.msg_id for m in second}


@pytest.mark.process
def test_a_recording_goes_on_until_it_is_stopped(
    cluster: Cluster, names: tuple[str, str], tmp_path: Path
) -> None:
    with blocking.Producer("pg", cluster.namesrv) as producer:
        producer.send(Message("RecordC", "before"))
        process = subprocess.Popen(
            (*COMMAND, "record", "RecordC", "-O", "-1", *names),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["body"] == "before"
        producer.send(Message("RecordC", "after"))
        assert json.loads(process.stdout.readline())["body"] == "after"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, errors) == (0, "2 messages of RecordC recorded\n")


def test_a_recording_ends_at_a_time(
    cluster: Cluster, names: tuple[str, str], here: Command
) -> None:
    with blocking.Producer("pg", cluster.namesrv) as producer:
        producer.send(Message("RecordD", "x"))
    assert bodies(cluster, "RecordD", 1) == [b"x"]
    past = ("record", "RecordD", "-O", "beginning", "--until")
    assert here(*past, "2020-01-01T00:00:00", *names)[:2] == (0, "")
    assert here("record", "RecordD", "--for", "1ms", *names)[:2] == (0, "")
    assert json.loads(here("record", "RecordD", "-O", "beginning", "-c", "1", *names)[1])


class Played:
    """A playback that runs on a clock of the test's."""

    def __init__(self, cluster: Cluster, path: str, topic: str, **options: object) -> None:
        self.clock, self.stop = VirtualClock(), asyncio.Event()
        self.outcome = Outcome("tape", keep_going=False)
        destination = Destination(topic=topic, namesrv=cluster.namesrv)
        playback = Playback(source=path, destination=destination, **options)  # type: ignore[arg-type]
        self.task = asyncio.ensure_future(play(playback, self.outcome, self.clock, self.stop))

    async def sent(self, count: int) -> None:
        """Returns when so many are stored, and the next one waits for its time or all is over."""
        while not self.task.done() and not (
            self.outcome.sent >= count and self.clock.pending_timers
        ):
            await self.clock.advance(0)
        assert self.outcome.sent == count


async def test_the_pauses_are_kept(cluster: Cluster, tmp_path: Path) -> None:
    path = recording(tmp_path / "tape", None, 0, 0, 1000, 61_000, 60_000, 7_200_000)
    tape = Played(cluster, path, "PlayPauses")
    await tape.sent(2)
    await tape.clock.advance(0.999)
    await tape.sent(2)
    await tape.clock.advance(0.001)
    await tape.sent(3)
    await tape.clock.advance(60)
    await tape.sent(5)  # one that is older than the one before it waits for nothing
    await tape.clock.advance(7138.999)
    await tape.sent(5)
    await tape.clock.advance(0.001)
    await tape.task
    assert tape.outcome.sent == 6


async def test_the_pauses_are_shortened(cluster: Cluster, tmp_path: Path) -> None:
    path = recording(tmp_path / "tape", None, 0, 3600_000)
    tape = Played(cluster, path, "PlaySpeed", speed=3600.0)
    await tape.sent(1)
    await tape.clock.advance(1)
    await tape.task
    assert tape.outcome.sent == 2
    at_once = Played(cluster, path, "PlaySpeed", speed=None)
    await at_once.task
    assert at_once.outcome.sent == 2


async def test_it_is_stopped_in_a_pause_and_goes_on_there(cluster: Cluster, tmp_path: Path) -> None:
    path = recording(tmp_path / "tape", None, 0, 0, 3600_000)
    tape = Played(cluster, path, "PlayStop")
    await tape.sent(2)
    tape.stop.set()
    await tape.task
    assert (tape.outcome.sent, tape.outcome.next_number) == (2, 3)
    rest = Played(cluster, path, "PlayStop", first=3)
    await rest.task
    assert rest.outcome.sent == 1


def test_a_part_is_played_to_the_recorded_topic(
    cluster: Cluster, names: tuple[str, str], here: Command, tmp_path: Path
) -> None:
    path = recording(tmp_path / "tape", "PlayFrom", 0, 0, 0, 0, 0)
    code, _, errors = here("replay", path, "--from", "2", "-c", "3", *names)
    assert code == 0, errors
    assert sorted(bodies(cluster, "PlayFrom", 3)) == [b"1", b"2", b"3"]


def test_a_recording_comes_through_a_pipe(
    cluster: Cluster, names: tuple[str, str], here: Command
) -> None:
    text = '{"body": "a"}\n\n{"body": "b"}'
    code, _, errors = here("replay", "-", "--topic", "PlayIn", *names, stdin=text)
    assert (code, errors.split(" in ")[0]) == (0, "2 messages replayed to PlayIn")
    assert sorted(bodies(cluster, "PlayIn", 2)) == [b"a", b"b"]


@pytest.mark.parametrize(
    ("text", "words", "code", "told"),
    [
        ('{"body": "x"}\n{"body": }', ["--topic", "PlayBad"], 2,
         "tape:2: this is no JSON: JSON is malformed: invalid character (byte 9) "
         "(1 messages were sent; go on with --from 2)"),
        ('{"body": "x"}\n{"body": ""}\n{"body": "y"}', ["--topic", "PlayBad", "--keep-going"], 1,
         "tape:2: the body is empty"),
        ('{"body": "x"}', [], 2, "tape:1: the message does not name its topic"),
        ('{"body": "x", "topic": "PlayBad"}\n{"body": "x", "topic": "PlayIn"}', [], 2,
         "tape:2: this is a message of PlayIn, and the first one was of PlayBad"),
        ('{"body": "x", "topic": "a b"}', [], 2, "tape:1: The specified topic: a b"),
        ("", ["--speed", "fast"], 2, "--speed is 'fast': it must be max, or a number"),
        ("", ["--speed", "0"], 2, "--speed is '0'"),
        ("", ["--speed", "nan"], 2, "--speed is 'nan'"),
        ("", ["--from", "0"], 2, "--from"),
    ],
)  # fmt: skip
def test_bad_recordings_are_named(
    names: tuple[str, str], here: Command, tmp_path: Path,
    text: str, words: list[str], code: int, told: str,
) -> None:  # fmt: skip
    path = tmp_path / "tape"
    path.write_text(text)
    ended, out, errors = here("replay", str(path), *words, *names)
    assert (ended, out) == (code, ""), errors
    assert told in errors


def test_what_is_no_recording_is_named(
    names: tuple[str, str], here: Command, tmp_path: Path
) -> None:
    code, _, errors = here("replay", str(tmp_path / "none"), *names)
    assert code == 2
    assert "there is no recording" in errors
    assert here("record", "RecordA", "--for", "1s", "--until", "2020-01-01", *names)[0] == 2
