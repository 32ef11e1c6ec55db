"""The command `pocketmq`, run as people run it, and where the process matters in one of its own."""

from __future__ import annotations

import base64
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.commands.here import ok, pocketmq
from support.commands.process import COMMAND, TIMEOUT_S, ok_process, pocketmq_process
from support.interop.clusters import Cluster, pocketmq_cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with pocketmq_cluster(tmp_path_factory.mktemp("cli") / "data", "--brokers", "2") as running:
        yield running


INTERRUPTED_WHILE_LOADING = """
import os, signal, sys

signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored here, as by nohup

class Presses:
    def find_spec(self, name, *_):
        if name == "typer":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Presses())
from pocketmq.cli.entry import run
run()
"""


@pytest.mark.process
def test_ctrl_c_before_anything_runs_ends_it_without_a_word() -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_WHILE_LOADING],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


def test_two_brokers_have_the_names_and_a_process_each(cluster: Cluster) -> None:
    assert sorted(cluster.brokers) == ["broker-a", "broker-b"]


def test_topics_are_created_changed_shown_and_deleted(cluster: Cluster) -> None:
    names = ("--namesrv", cluster.namesrv)
    ok("topic", "create", "CliTopic", "--queues", "3", *names)
    route = json.loads(ok("topic", "route", "CliTopic", "-o", "json", *names))
    assert [(r["broker"], r["address"], r["writeQueues"]) for r in route] == [
        ("broker-a", cluster.brokers["broker-a"], 3),
        ("broker-b", cluster.brokers["broker-b"], 3),
    ]
    ok("topic", "update", "CliTopic", "--write-queues", "2", "--perm", "r", *names)
    listed = json.loads(ok("topic", "list", "-o", "json", *names))
    assert {
        "topic": "CliTopic",
        "brokers": 2,
        "readQueues": 6,
        "writeQueues": 4,
        "perm": "R--",
        "attributes": "",
    } in listed
    assert not any(row["topic"] == "TBW102" for row in listed)
    assert "TBW102" in ok("topic", "list", "--all", *names)
    queues = json.loads(ok("topic", "show", "CliTopic", "-o", "json", *names))
    assert [(r["queue"], r["state"]) for r in queues if r["broker"] == "broker-a"] == [
        (0, "rw"), (1, "rw"), (2, "r"),
    ]  # fmt: skip
    ok("topic", "delete", "CliTopic", *names)
    gone = pocketmq("topic", "route", "CliTopic", *names)
    assert gone.returncode == 1
    assert "CliTopic" in gone.stderr
    assert "Traceback" not in gone.stderr


def test_topics_say_how_long_and_how_much_of_them_is_kept(cluster: Cluster) -> None:
    names = ("--namesrv", cluster.namesrv)
    ok("topic", "create", "CliKept", "--queues", "1", "--attribute", "+reserve.time=24", *names)
    ok("topic", "update", "CliKept", "--attribute", "+pocketmq.retention.bytes=1000000",
       "--broker", cluster.brokers["broker-b"], *names)  # fmt: skip
    one, both = "reserve.time=24", "pocketmq.retention.bytes=1000000,reserve.time=24"
    shown = json.loads(ok("topic", "show", "CliKept", "-o", "json", *names))
    assert {row["broker"]: row["attributes"] for row in shown} == {
        "broker-a": one, "broker-b": both,
    }  # fmt: skip
    assert both in ok("topic", "show", "CliKept", *names)
    listed = json.loads(ok("topic", "list", "-o", "json", *names))
    assert [r["attributes"] for r in listed if r["topic"] == "CliKept"] == [f"{both}; {one}"]
    done = pocketmq("topic", "update", "CliKept", "--attribute", "+reserve.time=a day", *names)
    assert done.returncode == 1
    assert "reserve.time is a day: hours, or -1 for as long as the broker says" in done.stderr
    ok("topic", "update", "CliKept", "--attribute", "-reserve.time", *names)
    assert one not in ok("topic", "list", *names)


def test_what_exists_with_other_settings_is_not_created(cluster: Cluster) -> None:
    names = ("--namesrv", cluster.namesrv)
    ok("topic", "create", "CliTwice", "--queues", "4", *names)
    ok("topic", "create", "CliTwice", "--queues", "4", *names)
    done = pocketmq("topic", "create", "CliTwice", "--queues", "1", *names)
    assert done.returncode == 1
    assert "with 4 read queues and 4 write queues, permission RW-, not with 1 read" in done.stderr
    assert "--if-not-exists leaves it as it is" in done.stderr
    ok("topic", "create", "CliTwice", "--queues", "1", "--if-not-exists", *names)
    listed = json.loads(ok("topic", "list", "-o", "json", *names))
    assert [row["readQueues"] for row in listed if row["topic"] == "CliTwice"] == [8]
    done = pocketmq("topic", "update", "CliTwice", "--read-queues", "1", *names)
    assert "warning: broker-a has 1 read queues now, and had 4" in done.stderr
    assert "warning: broker-b has more write queues, 4, than read queues, 1" in done.stderr


def test_shrinking_a_topic_warns_of_what_nobody_gets(cluster: Cluster) -> None:
    names = ("--namesrv", cluster.namesrv)
    ok("topic", "create", "CliShrink", "--queues", "2", *names)
    ok("produce", "CliShrink", *names, stdin="\n".join("abcdefgh"))
    done = pocketmq("topic", "update", "CliShrink", "--read-queues", "1", "--write-queues", "1",
                    *names)  # fmt: skip
    assert done.returncode == 0
    assert "warning: queue 1 on broker-" in done.stderr
    hidden = [r for r in json.loads(ok("topic", "show", "CliShrink", "-o", "json", *names))
              if r["state"] == "hidden"]  # fmt: skip
    assert sum(row["messages"] for row in hidden) > 0
    ok("topic", "update", "CliShrink", "--read-queues", "2", *names)
    assert "hidden" not in ok("topic", "show", "CliShrink", *names)


@pytest.mark.process
def test_lines_sent_through_a_pipe_are_consumed_in_order_by_key(cluster: Cluster) -> None:
    names = ("--namesrv", cluster.namesrv)
    lines = [f"line {i} – ü" for i in range(20)]
    sent = json.loads(
        ok_process("produce", "CliPipe", "--sharding-key", "k", "--tag", "t", "-p", "a=b",
                   "-o", "json", *names, stdin="\n".join(lines))
    )  # fmt: skip
    assert sent == {"topic": "CliPipe", "messages": 20, "failed": 0}
    text = ok_process("consume", "CliPipe", "--from-beginning", "--count", "20", "--timeout", "20",
                      "-o", "json", *names)  # fmt: skip
    got = [json.loads(line) for line in text.splitlines()]
    assert [m["body"] for m in got] == lines
    assert {m["tags"] for m in got} == {"t"}
    assert {m["properties"]["a"] for m in got} == {"b"}
    assert len({(m["broker"], m["queue"]) for m in got}) == 1
    stats = json.loads(ok("topic", "stats", "CliPipe", "-o", "json", *names))
    assert sum(row["messages"] for row in stats) == 20


def test_messages_are_chosen_by_their_properties(cluster: Cluster) -> None:
    names = ("--namesrv", cluster.namesrv)
    for price in (5, 50, 500):
        ok("send", "CliSql", str(price), "-p", f"price={price}", *names)
    take = ("consume", "CliSql", "--from-beginning", "--timeout", "20", *names)
    assert ok(*take, "--count", "1", "--sql", "price BETWEEN 10 AND 100") == "50\n"
    wrong = pocketmq(*take, "--sql", "price >")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "character 8" in wrong.stderr
    both = pocketmq(*take, "--sql", "price > 1", "--tag", "t")
    assert both.returncode == 2
    assert "not both" in both.stderr


def test_a_group_goes_on_where_it_stopped(cluster: Cluster) -> None:
    names = ("--namesrv", cluster.namesrv)
    ok("produce", "CliGroup", "--sharding-key", "k", *names, stdin="one\ntwo\nthree")
    take = ("consume", "CliGroup", "--group", "cli_group", "--from-beginning", "--timeout", "20")
    assert ok(*take, "--count", "2", *names) == "one\ntwo\n"
    assert ok(*take, "--count", "1", *names) == "three\n"


def test_bench_prints_rates(cluster: Cluster) -> None:
    rows = json.loads(
        ok("bench", "--messages", "500", "--topic", "CliBench", "-o", "json",
           "--namesrv", cluster.namesrv)
    )  # fmt: skip
    assert [row["messages"] for row in rows] == [500, 500]
    assert all(row["perSecond"] > 0 for row in rows)


@pytest.mark.process
def test_too_few_messages_are_an_exit_code(cluster: Cluster) -> None:
    done = pocketmq_process("consume", "SELF_TEST_TOPIC", "--count", "1", "--timeout", "0.2",
                            "--namesrv", cluster.namesrv)  # fmt: skip
    assert done.returncode == 1
    assert "only 0 of 1" in done.stderr


def test_health_tells_living_from_dead(cluster: Cluster) -> None:
    ok("health", "--namesrv", cluster.namesrv)
    ok("health", "--broker", cluster.brokers["broker-b"])
    dead = pocketmq("health", "--broker", "127.0.0.1:1")
    assert dead.returncode == 1
    assert "cannot connect to 127.0.0.1:1" in dead.stderr
    assert pocketmq("health").returncode == 2


def test_a_cluster_without_name_server_is_named(cluster: Cluster) -> None:
    done = pocketmq("topic", "list", "--namesrv", "127.0.0.1:1")
    assert done.returncode == 1
    assert "127.0.0.1:1" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.process
def test_the_data_directory_is_taken_by_one_process(tmp_path: Path) -> None:
    with pocketmq_cluster(tmp_path):
        second = pocketmq("up", "--namesrv-port", "0", "--broker-port", "0", "--data",
                          str(tmp_path))  # fmt: skip
    assert second.returncode == 2
    assert "is in use by process" in second.stderr
    assert str(tmp_path / "broker-a") in second.stderr


def test_a_used_port_is_named(cluster: Cluster, tmp_path: Path) -> None:
    port = cluster.namesrv.rpartition(":")[2]
    done = pocketmq("up", "--namesrv-port", port, "--data", str(tmp_path))
    assert done.returncode != 0
    assert port in done.stderr
    assert "Traceback" not in done.stderr
    taken = cluster.brokers["broker-a"].rpartition(":")[2]
    done = pocketmq(
        "up", "--namesrv-port", "0", "--broker-port", taken, "--data", str(tmp_path / "b")
    )
    assert done.returncode != 0
    assert taken in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("brokerNam: x", ("brokerNam", "brokerName")),
        ("listenPort: many", ("listenPort",)),
        ("flushDiskType: SOMETIMES", ("flushDiskType", "SYNC_FLUSH")),
        ("listenPort=1", ("key: value",)),
        ("fileReservedTime: 0", ("fileReservedTime",)),
    ],
)
def test_a_wrong_setting_is_named_with_the_remedy(
    tmp_path: Path, text: str, words: tuple[str, ...]
) -> None:
    path = tmp_path / "broker.yaml"
    path.write_text(text)
    done = pocketmq("broker", "-c", str(path))
    assert done.returncode == 2
    assert str(path) in done.stderr
    for word in words:
        assert word in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("up", "--memory", "--host", "0.0.0.0"),
        ("up", "--memory", "--control", "0", "--control-host", "0.0.0.0"),
        ("broker", "--settings", '{"bindAddress": "0.0.0.0", "listenPort": 0}'),
        ("namesrv", "-c", "namesrv.yaml"),
    ],
    ids=["cluster", "control", "broker", "namesrv"],
)
def test_no_server_is_open_to_a_network_by_accident(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("namesrv.yaml").write_text("bindAddress: 0.0.0.0\nlistenPort: 0\n")
    done = pocketmq(*words)
    assert done.returncode == 2
    for word in ("0.0.0.0", "authenticationEnabled", "--secure", "--insecure"):
        assert word in done.stderr
    assert "Traceback" not in done.stderr


def test_a_missing_settings_file_is_named(tmp_path: Path) -> None:
    done = pocketmq("namesrv", "-c", str(tmp_path / "none.yaml"))
    assert done.returncode == 2
    assert "none.yaml" in done.stderr


@pytest.mark.process
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_a_cluster_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    process = subprocess.Popen(
        (*COMMAND, "up", "--brokers", "2", "--namesrv-port", "0", "--broker-port", "0", "--data",
         str(tmp_path)),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline().startswith("up namesrv=")
    process.send_signal(number)
    _, errors = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0
    assert errors == ""


@pytest.mark.process
def test_data_in_memory_goes_with_the_cluster(tmp_path: Path) -> None:
    process = subprocess.Popen(
        (*COMMAND, "up", "--memory", "--namesrv-port", "0", "--broker-port", "0"),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert process.stdout is not None
    directory = Path(process.stdout.readline().strip().rpartition("data=")[2])
    assert (directory / "broker-a").is_dir()
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, errors) == (0, "")
    assert not directory.exists()
    assert list(tmp_path.iterdir()) == []
    refused = pocketmq("up", "--memory", "--data", str(tmp_path))
    assert refused.returncode != 0
    assert "exclude each other" in refused.stderr


@pytest.mark.process
def test_a_store_is_checked_and_damage_is_found(tmp_path: Path) -> None:
    with pocketmq_cluster(tmp_path) as running:
        ok("produce", "CliStore", "--namesrv", running.namesrv, stdin="one\ntwo\nthree")
        busy = pocketmq("store", "check", str(tmp_path / "broker-a"))
        assert busy.returncode == 1
        assert "is in use by process" in busy.stderr
    sound = json.loads(ok("store", "check", str(tmp_path / "broker-a"), "-o", "json"))
    assert sound["records"] == 3
    assert sound["problems"] == []
    log = next((tmp_path / "broker-a" / "queues" / "CliStore").rglob("*.log"))
    log.write_bytes(log.read_bytes()[:-1])
    damaged = pocketmq("store", "check", str(tmp_path / "broker-a"))
    assert damaged.returncode == 1
    assert str(log) in damaged.stdout
    assert "pocketmq store repair" in damaged.stdout
    assert pocketmq("store", "check", str(tmp_path / "nothing")).returncode == 2


@pytest.mark.process
def test_a_store_is_dumped_and_repaired(tmp_path: Path) -> None:
    directory = str(tmp_path / "broker-a")
    with pocketmq_cluster(tmp_path) as running:
        names = ("--namesrv", running.namesrv)
        ok("produce", "CliDump", "--sharding-key", "k", "--tag", "t", "-p", "a=b", *names,
           stdin="one\ntwo\nthree ü")  # fmt: skip
        dump = ("store", "dump", directory, "--topic", "CliDump")
        rows = [json.loads(line) for line in ok(*dump, "-o", "json").splitlines()]
    assert [(row["offset"], row["body"], row["tags"]) for row in rows] == [
        (0, "one", "t"), (1, "two", "t"), (2, "three ü", "t"),
    ]  # fmt: skip
    assert rows[1]["position"] == rows[0]["size"]
    assert rows[0]["properties"]["a"] == "b"
    part = ok(*dump, "--from", "1", "--limit", "1", "--body", "2")
    assert part.startswith(f"topic=CliDump queue={rows[0]['queue']} offset=1 ")
    assert "  body: tw\n" in part
    assert ok(*dump, "--to", "0") == ok(*dump, "--until", "2020-01-01T00:00:00") == ""
    assert ok(*dump, "--since", "2020-01-01T00:00:00", "-o", "json").count("\n") == 3
    log = next((tmp_path / "broker-a" / "queues" / "CliDump").rglob("*.log"))
    assert ok("store", "dump", str(log), "-o", "json") == ok(*dump, "-o", "json")
    entries = ok("store", "dump", str(log.with_suffix(".idx")), "-o", "json").splitlines()
    assert [json.loads(e)["position"] for e in entries] == [row["position"] for row in rows]
    assert pocketmq("store", "dump", str(tmp_path)).returncode == 2
    queue = str(rows[0]["queue"])
    for wrong, remark in {
        ("--topic", "CliDmup"): "nothing of topic CliDmup",
        ("--topic", "CliDump", "--queue", "99"): f"nothing of queue 99 of CliDump, but of {queue}",
        ("--queue", "99"): "nothing of queue 99;",
    }.items():
        refused = pocketmq("store", "dump", directory, *wrong)
        assert (refused.returncode, remark in refused.stderr) == (2, True), refused.stderr
    refused = pocketmq("store", "dump", str(log), "--topic", "CliDump")
    assert (refused.returncode, "leave --topic" in refused.stderr) == (2, True)

    content = bytearray(log.read_bytes())
    content[64 + rows[1]["position"] + 90] ^= 0xFF
    log.write_bytes(content)
    told = pocketmq(*dump, "-o", "json")
    assert told.returncode == 1
    assert [json.loads(line)["offset"] for line in told.stdout.splitlines()] == [0, 2]
    assert f"{rows[1]['size']} bytes from position {rows[1]['position']} on" in told.stderr
    tried = json.loads(pocketmq("store", "repair", directory, "--dry-run", "-o", "json").stdout)
    assert tried["folder"] is None
    done = json.loads(ok("store", "repair", directory, "-o", "json"))
    assert len(done["steps"]) == len(tried["steps"]) == 4
    assert "leave a gap at offset 1, of which the " in done["steps"][0]
    assert done["steps"][2].endswith("releases before 0.2.0 know no such gaps")
    kept = next(path for path in Path(done["folder"]).rglob("*.log.from-*")).read_bytes()
    assert len(kept) == rows[1]["size"]
    assert kept in bytes(content)
    checked = pocketmq("store", "check", directory).stderr
    assert "all sound" in checked
    assert "1 message lost to damage, from offset 1 to 1; consumers go on behind" in checked
    again = [json.loads(line) for line in ok(*dump, "-o", "json").splitlines()]
    assert [(row["offset"], row["body"], row.get("isLost")) for row in again] == [
        (0, "one", None), (1, "", True), (2, "three ü", None),
    ]  # fmt: skip
    with pocketmq_cluster(tmp_path) as running:
        words = ("consume", "CliDump", "--from-beginning", "--count", "2", "--timeout", "20")
        assert ok(*words, "--namesrv", running.namesrv) == "one\nthree ü\n"


def test_a_body_comes_from_a_file_or_standard_input(cluster: Cluster, tmp_path: Path) -> None:
    names = ("--namesrv", cluster.namesrv)
    ok("topic", "create", "CliFiles", "--queues", "1", "--broker", cluster.brokers["broker-a"],
       *names)  # fmt: skip
    path = tmp_path / "body.bin"
    path.write_bytes(b"two\nlines\n\xff")
    ok("send", "CliFiles", "--file", str(path), *names)
    ok("send", "CliFiles", "-f", "-", *names, stdin="piped\n")
    lines = ok("tail", "CliFiles", "-O", "beginning", "-e", "-o", "json", *names).splitlines()
    sent = [json.loads(line) for line in lines]
    assert base64.b64decode(sent[0]["bodyBase64"]) == path.read_bytes()
    assert sent[1]["body"] == "piped\n"
    path.write_bytes(bytes(4 * 1024 * 1024 + 1))
    for words, text in (
        (("--file", str(path)), "larger than 4194304 bytes"),
        (("--file", str(tmp_path / "gone")), "gone cannot be read: No such file"),
        (("--file", str(tmp_path)), "cannot be read: Is a directory"),
        (("body", "--file", str(path)), "one of the two"),
        ((), "give the body"),
    ):
        done = pocketmq("send", "CliFiles", *words, *names)
        assert (done.returncode, text in done.stderr) == (2, True), done.stderr


def test_a_missing_topic_cannot_be_deleted_and_is_not_to_be_created(cluster: Cluster) -> None:
    done = pocketmq("topic", "delete", "Nope", "--namesrv", cluster.namesrv)
    assert done.returncode == 1
    assert "topic Nope does not exist" in done.stderr
    assert "pocketmq topic list" in done.stderr
    assert "create" not in done.stderr


def test_timers_are_sent_and_recalled(cluster: Cluster) -> None:
    names = ("--namesrv", cluster.namesrv)
    ok("topic", "create", "CliTimers", "--queues", "1", *names)
    send = ("send", "CliTimers", *names, "-o", "json")
    (gone,) = json.loads(ok(*send, "gone", "--delay", "10m"))
    ok(*send, "late", "--delay", "1.5s")
    ok(*send, "past", "--deliver-at", "2001-09-09T01:46:40Z")
    recalled = json.loads(ok("recall", "CliTimers", gone["recallHandle"], *names, "-o", "json"))
    assert recalled == [{"recalled": gone["msgId"]}]
    consumed = ok("consume", "CliTimers", "--from-beginning", "--count", "2", *names)
    assert sorted(consumed.split()) == ["late", "past"]
    for words, text in (
        (("send", "CliTimers", "x", "--delay", "soon"), "10s"),
        (("send", "CliTimers", "x", "--delay", "0s"), "10s"),
        (("send", "CliTimers", "x", "--deliver-at", "tomorrow"), "2030-01-31T08:00:00"),
        (("send", "CliTimers", "x", "--delay", "1s", "--deliver-at", "2001-09-09"), "give one"),
        (("recall", "CliTimers", "nonsense"), "recall handle is invalid"),
    ):
        refused = pocketmq(*words, *names)
        assert refused.returncode == 2, words
        assert text in refused.stderr
