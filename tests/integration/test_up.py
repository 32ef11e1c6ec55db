"""`pocketmq up` as people start it: its options, its line, its end, and what stands in its way."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.brokers.control_parts import Control
from support.commands.here import ok, pocketmq
from support.commands.process import COMMAND, pocketmq_process
from support.interop.clusters import POCKETMQ_UP, pocketmq_cluster
from support.interop.processes import running

from pocketmq.cli.main import app
from pocketmq.cli.servers.cluster import BROKERS_MAX, broker_count, cores
from pocketmq.client import Message
from pocketmq.client.blocking import Producer, PullConsumer
from pocketmq.protocol.errors import ConfigError

UP = (*COMMAND, "up")
ANY_PORTS = ("--namesrv-port", "0", "--broker-port", "0")
TIMEOUT_S = 90.0
Ended = subprocess.CompletedProcess[str]


def failed(*options: str, command: Callable[..., Ended] = pocketmq) -> tuple[int, str]:
    """Starts a cluster that does not start; its exit code and what it said."""
    done = command("up", *options)
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr


@contextmanager
def taken_port() -> Iterator[int]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield taken.getsockname()[1]


def send(namesrv: str, body: bytes) -> None:
    with Producer("producers", namesrv) as producer:
        producer.send(Message("Orders", body))


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


@pytest.mark.process
def test_a_program_is_told_where_it_is(tmp_path: Path) -> None:
    command = [*UP, *ANY_PORTS, "--data", str(tmp_path), "--brokers", "2", "--control", "0"]
    with running([*command, "-o", "json"], re.compile(r"^\{.*\}$")) as line:
        up = json.loads(line.group())
        assert list(up["brokers"]) == ["broker-a", "broker-b"]
        assert (up["up"], up["data"]) == (True, str(tmp_path))
        control = Control(up["control"].removeprefix("http://"))
        health = control.ok("GET", "/health")
        assert health["namesrv"] == up["namesrv"]
        assert {b["name"]: b["address"] for b in health["brokers"]} == up["brokers"]
        control.ok("PUT", "/topics/Orders")
        message = {"body": "later", "delayMs": 7_200_000}
        control.ok("POST", "/topics/Orders/messages", {"messages": [message]})
        control.ok("POST", "/clock/advance", {"hours": 2})
        found = control.ok("GET", "/topics/Orders/messages?waitFor=1")["messages"]
        assert [m["body"] for m in found] == ["later"]
    with running([*command], POCKETMQ_UP) as line:
        assert "broker-b=127.0.0.1:" in line.group()
        url = re.search(r" control=http://(\S+) data=", line.group())
        assert url is not None
        kept = Control(url.group(1)).ok("GET", "/topics/Orders")
        assert kept["messages"] == 1


@pytest.mark.process
def test_a_broker_becomes_a_set_that_outlives_its_leader(tmp_path: Path) -> None:
    command = [*UP, *ANY_PORTS, "--data", str(tmp_path), "-o", "json"]
    with running(command, re.compile(r"^\{.*\}$")) as line:
        send(json.loads(line.group())["namesrv"], b"before")
    with running([*command, "--replicas", "2"], re.compile(r"^\{.*\}$")) as line:
        up = json.loads(line.group())
        assert list(up["brokers"]) == list(up["processes"]) == ["broker-a/1", "broker-a/2"]
        os.kill(up["processes"]["broker-a/1"], signal.SIGKILL)
        send(up["namesrv"], b"after")
        listing = ok("cluster", "list", "-o", "json", "--namesrv", up["namesrv"])
        rows = json.loads(listing)
        leader = next(row for row in rows if row["brokerId"] == 0)
        assert leader["address"] == up["brokers"]["broker-a/2"]
        with PullConsumer("readers", up["namesrv"]) as consumer:
            pulled = [consumer.pull(queue, 0) for queue in consumer.queues("Orders")]
        assert sorted(m.body for one in pulled for m in one.messages) == [b"after", b"before"]
    code, said = failed(*ANY_PORTS, "--data", str(tmp_path))
    assert code == 2
    assert "holds broker sets of 2" in said
    assert "start it with --replicas 2" in said


@pytest.mark.process
def test_the_control_api_disturbs_broker_sets(tmp_path: Path) -> None:
    command = [*UP, *ANY_PORTS, "--data", str(tmp_path), "--replicas", "2", "--control", "0"]
    with running([*command, "-o", "json"], re.compile(r"^\{.*\}$")) as line:
        up = json.loads(line.group())
        control = Control(up["control"].removeprefix("http://"))

        def members() -> list[tuple[str, str, str | None, bool]]:
            brokers = control.ok("GET", "/health")["brokers"]
            return [(b["name"], b["state"], b["role"], b["inSync"]) for b in brokers]

        whole = [("broker-a/1", "up", "leader", True), ("broker-a/2", "up", "follower", True)]
        assert members() == whole
        slow = {"kind": "slow_link", "broker": "broker-a/2", "milliseconds": 1}
        for order in (slow, {"kind": "arbiter_away"}):
            fault = control.ok("POST", "/faults", order)
            control.ok("DELETE", f"/faults/{fault['id']}")
        fault = control.ok("POST", "/faults", {"kind": "kill", "broker": "broker-a"})
        send(up["namesrv"], b"goes on")
        assert members()[0] == ("broker-a/1", "killed", None, False)
        control.ok("DELETE", f"/faults/{fault['id']}")
        assert {role for _, _, role, in_sync in members() if in_sync} == {"leader", "follower"}
        control.ok("POST", "/reset")
        assert members() == whole


@pytest.mark.process
def test_a_reset_brings_the_seed_back(tmp_path: Path) -> None:
    seed = tmp_path / "seed.yaml"
    seed.write_text("topics:\n  Sown:\n    queues: 1\n    messages: [first]\n")
    command = [*UP, "--memory", *ANY_PORTS, "--control", "0", "--seed", str(seed)]
    with running([*command, "-o", "json"], re.compile(r"^\{.*\}$")) as line:
        control = Control(json.loads(line.group())["control"].removeprefix("http://"))
        more = {"messages": [{"body": "second"}]}
        control.ok("POST", "/topics/Sown/messages", more)
        assert control.ok("GET", "/topics/Sown")["messages"] == 2
        control.ok("POST", "/reset")
        shown = control.ok("GET", "/topics/Sown/messages")["messages"]
        assert [message["body"] for message in shown] == ["first"]


@pytest.mark.process
def test_it_stops_when_it_is_told_to_over_http() -> None:
    with subprocess.Popen(
        (*UP, "--memory", *ANY_PORTS, "--control", "0", "-o", "json"),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        up = json.loads(process.stdout.readline())
        answer = Control(up["control"].removeprefix("http://")).ask("POST", "/shutdown")
        assert answer.status == 202
        assert process.wait(TIMEOUT_S) == 0
    assert not Path(up["data"]).exists()


@pytest.mark.process
def test_it_stops_with_who_started_it() -> None:
    with subprocess.Popen(
        (*UP, "--memory", *ANY_PORTS, "--stop-with-stdin"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline().startswith("up ")
        process.stdin.close()
        assert process.wait(TIMEOUT_S) == 0


@pytest.mark.process
def test_without_control_neither_it_nor_the_client_is_loaded() -> None:
    script = (
        "import sys; from pocketmq.cli.servers import up; "
        "sys.exit(bool({'starlette', 'uvicorn', 'pocketmq.testing', 'pocketmq.client'}"
        " & set(sys.modules)))"
    )
    assert subprocess.run((sys.executable, "-c", script), check=False).returncode == 0


@pytest.mark.process
def test_without_the_extra_it_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "starlette.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'starlette'\", name='starlette')\n"
    )
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        (*UP, "--memory", "--control", "0", *ANY_PORTS),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "pocketmq: --control needs starlette, which is not installed: "
        "pip install 'pocketmq[control]'\n"
    )


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--clock", "virtual"), "--clock needs --control PORT"),
        (("--control", "0", "--clock", "sundial"), "must be one of offset, virtual, system"),
        (("--published", "--broker-port", "0"), "--published needs fixed ports"),
        (("--brokers", "27"), "--brokers is 27: it must be between 1 and 26"),
        (("--brokers", "27", "--control", "0"), "--brokers is 27: it must be between 1 and 26"),
        (("--replicas", "6"), "--replicas is 6: it must be between 1 and 5"),
        (("--replicas", "2", "--broker-port", "65530"), r"broker-a \(--broker-port\) is 6\d+: it"),
        (("--brokers", "all"), "--brokers is 'all': it must be auto or between 1 and 26"),
        (("--memory", "--data", "d"), "exclude each other"),
        (("--namesrv-port", "99999"), r"name server \(--namesrv-port\) is 99999: it must be"),
        (("--namesrv-port", "-1"), r"name server \(--namesrv-port\) is -1: it must be"),
        (("--broker-port", "70000"), r"broker-a \(--broker-port\) is 70000: it must be"),
        (("--broker-port", "65530", "--brokers", "2"), r"broker-b \(--broker-port\) is 6\d+: it"),
        (("--broker-port", "-1", "--control", "0"), r"broker-a \(--broker-port\) is -1: it must"),
        (("--control", "70000"), "the port of the control API is 70000: it must be"),
        (("--control", "-1"), "the port of the control API is -1: it must be"),
    ],
)
def test_options_that_do_not_fit(options: tuple[str, ...], text: str, tmp_path: Path) -> None:
    where = () if "--data" in options else ("--data", str(tmp_path))
    with pytest.raises(ConfigError, match=text):
        app(["up", *options, *where], standalone_mode=False)


def test_auto_is_a_broker_for_each_core_and_for_each_that_is_there(tmp_path: Path) -> None:
    expected = min(cores(), BROKERS_MAX)
    assert broker_count("auto", None) == broker_count("auto", tmp_path) == expected
    for name in ("broker-a", "broker-z", "another"):
        (tmp_path / name).mkdir()
    assert broker_count("auto", tmp_path) == BROKERS_MAX
    assert broker_count("3", tmp_path) == 3


@pytest.mark.parametrize("control", [(), ("--control", "0")], ids=["plain", "controlled"])
def test_ports_in_use_are_named(control: tuple[str, ...], tmp_path: Path) -> None:
    with taken_port() as port:
        data = ("--data", str(tmp_path), *control)
        _, said = failed("--namesrv-port", str(port), "--broker-port", "0", *data)
        assert f"the name server cannot listen on 127.0.0.1:{port}: Address already in use" in said
        assert "--namesrv-port" in said
        assert "--broker-port" not in said
        _, said = failed("--namesrv-port", "0", "--broker-port", str(port), *data)
        assert f"broker-a cannot listen on 127.0.0.1:{port}: Address already in use" in said
        assert "--broker-port" in said
        assert "--data" not in said
        if not control:
            return
        _, said = failed(*ANY_PORTS, "--data", str(tmp_path), "--control", str(port))
        assert "choose another --control PORT" in said


@pytest.mark.process
def test_two_clusters_do_not_share_a_directory(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with pocketmq_cluster(data):
        for further in ((), ("--control", "0"), ("--brokers", "2")):
            words = (*ANY_PORTS, "--data", str(data), *further)
            _, said = failed(*words, command=pocketmq_process)
            assert "in use by process" in said
            assert "--data or --memory" in said


# -- stopped in the middle of its start -----------------------------------------------------------


@pytest.mark.process
@pytest.mark.parametrize(
    ("number", "options"),
    [
        (signal.SIGTERM, ("--brokers", "1")),
        (signal.SIGINT, ("--brokers", "3")),
        (signal.SIGTERM, ("--brokers", "2", "--control", "0")),
    ],
    ids=["one", "three", "controlled"],
)
def test_a_stop_in_the_middle_of_a_start_leaves_nothing(
    number: signal.Signals, options: tuple[str, ...], tmp_path: Path
) -> None:
    starting = tmp_path / "starting"
    os.mkfifo(starting)
    # A sitecustomize of the brokers' processes: they start and never register.
    (tmp_path / "sitecustomize.py").write_text(
        "import asyncio\n"
        "from pocketmq.broker.registration.registration import Registration\n"
        "async def never(self):\n"
        f"    with open({str(starting)!r}, 'w') as pipe: pipe.write('x')\n"
        "    await asyncio.Event().wait()\n"
        "Registration.register = never\n"
    )
    data = tmp_path / "data"
    with taken_port() as namesrv_port:
        pass
    brokers = int(options[1])
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]),
        "TMPDIR": str(tmp_path),
    }
    process = subprocess.Popen(
        (*UP, "--namesrv-port", str(namesrv_port), "--broker-port", "0", "--data", str(data),
         *options),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    )  # fmt: skip
    group = process.pid
    with open(os.open(starting, os.O_RDWR), "rb", buffering=0) as pipe:
        for _ in range(brokers):
            assert pipe.read(1) == b"x"
    assert not is_free(namesrv_port)
    process.send_signal(number)
    printed, said = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, printed) == (1, "")
    assert "stopped before it was up; nothing is left behind" in said
    with pytest.raises(ProcessLookupError):
        os.killpg(group, 0)
    assert is_free(namesrv_port)
    with pocketmq_cluster(data, "--brokers", str(brokers)) as cluster:
        assert len(cluster.brokers) == brokers
