"""Ends the processes that a run of the tests leaves behind when it is interrupted or killed.

Every process that a test starts, and every process that such a one starts in turn, inherits a
variable of the environment with the number of this run. A reaper, a process of its own, waits until
the run is over, however it ended, and then kills all that still carry the number.
"""

from __future__ import annotations

import os
import subprocess
import sys
import uuid

VARIABLE = "POCKETMQ_TEST_RUN"

# Standard input ends when the run does: nobody else holds the other end of the pipe.
REAPER = """
import os, re, signal, subprocess, sys

mark = os.fsencode(sys.argv[1])

def marked():
    if os.path.isdir("/proc/self"):
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{name}/environ", "rb") as environ:
                    if mark in environ.read().split(b"\\0"):
                        yield int(name)
            except OSError:
                pass  # it ended meanwhile, or belongs to another user
        return
    listed = subprocess.run(["ps", "axeww", "-o", "pid=,command="], stdout=subprocess.PIPE)
    for line in listed.stdout.splitlines():
        if mark in line.split():
            yield int(line.split()[0])

sys.stdin.buffer.read()
while found := list(marked()):
    for process in found:
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            pass
"""


def end_with_this_run() -> None:
    """Starts the reaper, and marks what this process starts from now on."""
    mark = f"{VARIABLE}={uuid.uuid4().hex}"
    # In a session of its own it gets no Ctrl-C. The pipe stays open as long as this process lives.
    _reapers.append(
        subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", REAPER, mark],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
    )
    os.environ[VARIABLE] = mark.partition("=")[2]


_reapers: list[subprocess.Popen[bytes]] = []
