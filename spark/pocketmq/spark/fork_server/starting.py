"""Starts the fork server of this process, whose launcher then is the Python of Spark."""

from __future__ import annotations

import atexit
import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from pocketmq.spark.fork_server import launcher, server

SWITCH = "POCKETMQ_SPARK_FORK_SERVER"
"""A variable: with 0 Spark starts its Python processes one by one."""

_BACKLOG = 64
"""Launchers that may wait while the server loads its modules, or forks."""


@cache
def spark_python() -> str:
    """Returns the program that a local Spark session starts as Python.

    A launcher before a fork server, which is started once, on Linux: elsewhere libraries that were
    loaded before a fork do not all work after it. Where SPARK_HOME names another Spark than that of
    this process, its modules are others: then it is this process's own Python.
    """
    if sys.platform != "linux" or os.environ.get("SPARK_HOME") or os.environ.get(SWITCH) == "0":
        return sys.executable
    folder = Path(tempfile.mkdtemp(prefix="pocketmq-spark-"))  # for this user only
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    program, process = start_fork_server(folder)
    atexit.register(end_fork_server, process)
    return str(program)


def start_fork_server(folder: Path) -> tuple[Path, subprocess.Popen[bytes]]:
    """Starts a fork server; returns the launcher, which may be used at once, and its process.

    Args:
        folder: for the server's socket and the launcher.
    """
    address = folder / "socket"
    environment = {
        **os.environ,
        "PYTHONHASHSEED": os.environ.get("PYTHONHASHSEED", "0"),  # as Spark sets it
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),  # as well
        "JE_ARROW_MALLOC_CONF": "background_thread:false",  # PyArrow's: no thread survives a fork
    }
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(address))
        listener.listen(_BACKLOG)
        number = listener.fileno()
        process = subprocess.Popen(
            [sys.executable, "-u", "-m", server.__name__, str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env=environment,
            pass_fds=[number],
            start_new_session=True,  # Ctrl-C in a terminal does not reach the server
        )
    words = [sys.executable, "-IS", launcher.__file__, str(address), sys.executable]
    program = folder / "python"
    program.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    program.chmod(0o700)
    return program, process


def end_fork_server(process: subprocess.Popen[bytes]) -> None:
    """Ends a fork server by the end of its input, and waits for it."""
    assert process.stdin is not None
    process.stdin.close()
    process.wait()
