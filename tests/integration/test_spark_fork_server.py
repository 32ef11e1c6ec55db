"""The fork server of local Spark sessions: its processes are as if Python had been started."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pocketmq.spark.fork_server.starting import (
    SWITCH,
    end_fork_server,
    spark_python,
    start_fork_server,
)

pytest.importorskip("pyspark")
pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(sys.platform != "linux", reason="it is for Linux alone"),
]

STATE = """
import json, os, sys, random
import numpy
print(json.dumps({
    "arguments": sys.argv[1:], "folder": os.getcwd(), "input": sys.stdin.read(),
    "variables": {k: v for k, v in os.environ.items() if k.startswith("OF_TEST")},
    "is_loaded": "pocketmq.spark.rows.decoding" in sys.modules, "name": __name__,
    "drawn": [random.random(), numpy.random.random()], "hash": hash("pocketmq"),
}))
print("to standard error", file=sys.stderr)
sys.exit(7)
"""

Server = tuple[Path, "subprocess.Popen[bytes]"]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    program, process = start_fork_server(tmp_path)
    yield program, process
    end_fork_server(process)
    assert process.returncode == 0


def run_state(program: Path | str, folder: Path, *, variable: str = "here") -> dict[str, Any]:
    """Runs a module that tells how it found its process."""
    folder.mkdir(exist_ok=True)
    (folder / "telling_state.py").write_text(STATE)
    done = subprocess.run(
        [program, "-m", "telling_state", "-m", "a b"],
        input="from the JVM",
        env={**os.environ, "PYTHONPATH": str(folder), "OF_TEST": variable, "PYTHONHASHSEED": "0"},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (7, "to standard error\n")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_forked_process_is_as_if_it_had_been_started(server: Server, tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere"
    forked, started = run_state(server[0], folder), run_state(sys.executable, folder)

    assert (forked.pop("is_loaded"), started.pop("is_loaded")) == (True, False)
    assert forked.pop("drawn") != started.pop("drawn")
    assert forked == started
    assert forked["arguments"] == ["-m", "a b"]
    assert forked["folder"] == str(folder)
    assert forked["variables"] == {"OF_TEST": "here"}


def test_each_process_has_random_numbers_and_variables_of_its_own(
    server: Server, tmp_path: Path
) -> None:
    found = [run_state(server[0], tmp_path / "f", variable=v) for v in ("first", "second")]

    assert [f["variables"] for f in found] == [{"OF_TEST": "first"}, {"OF_TEST": "second"}]
    ours, theirs = (f["drawn"] for f in found)
    assert ours[0] != theirs[0], "the standard library's"
    assert ours[1] != theirs[1], "numpy's"


def test_a_launcher_that_is_told_to_end_ends_its_process(server: Server, tmp_path: Path) -> None:
    (tmp_path / "waiting.py").write_text("print('begun', flush=True)\ninput()\n")
    with subprocess.Popen(
        [server[0], "-m", "waiting"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as launcher:
        assert launcher.stdout is not None
        assert launcher.stdout.readline() == "begun\n"
        launcher.send_signal(signal.SIGTERM)
        assert launcher.wait() == 128 + signal.SIGTERM
        assert launcher.stdout.read() == "", "the process has closed its output"


def test_a_module_that_fails_says_so_and_the_server_goes_on(server: Server, tmp_path: Path) -> None:
    failing = subprocess.run(
        [server[0], "-m", "no_such_module"], capture_output=True, text=True, check=False
    )
    assert failing.returncode == 1
    assert "No module named no_such_module" in failing.stderr
    assert run_state(server[0], tmp_path / "f")["is_loaded"]


def test_a_module_that_is_loaded_already_runs_without_a_word(server: Server) -> None:
    module = "pocketmq.spark.rows.marks"  # as Spark runs its own source runner
    done = subprocess.run([server[0], "-m", module], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_without_the_server_the_launcher_is_python(server: Server, tmp_path: Path) -> None:
    program, process = server
    assert subprocess.check_output([program, "-c", "print(1 + 1)"]) == b"2\n", "not a module"
    end_fork_server(process)
    assert not run_state(program, tmp_path / "f")["is_loaded"]


def test_what_is_no_request_of_a_launcher_is_closed(server: Server, tmp_path: Path) -> None:
    for request in (b"", b"\0\0\0\x04", b"\xff\xff\xff\xff"):
        with socket.socket(socket.AF_UNIX) as peer:
            peer.connect(str(tmp_path / "socket"))
            peer.sendall(request)
            peer.shutdown(socket.SHUT_WR)
            assert peer.recv(1) == b""
    assert run_state(server[0], tmp_path / "f")["is_loaded"]


@pytest.mark.parametrize("document", [b"[]", b'{"folder": "/"}', b'{"arguments": [], "more": 1}'])
def test_a_request_of_another_shape_is_closed(
    server: Server, tmp_path: Path, document: bytes
) -> None:
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect(str(tmp_path / "socket"))
        socket.send_fds(peer, [len(document).to_bytes(4, "big")], [0, 1, 2])
        peer.sendall(document)
        assert peer.recv(1) == b""
    assert run_state(server[0], tmp_path / "f")["is_loaded"]


def test_sessions_of_another_spark_have_no_fork_server(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ((SWITCH, "0"), ("SPARK_HOME", "/opt/spark")):
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            assert spark_python.__wrapped__() == sys.executable


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_spark_has_its_python_processes_forked(spark: Any) -> None:
    def loaded(_: int) -> bool:
        return "pocketmq.spark.rows.decoding" in sys.modules

    assert spark.sparkContext.parallelize([0], 1).map(loaded).collect() == [True]
