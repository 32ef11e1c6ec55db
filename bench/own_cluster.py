"""This project's cluster in a process of its own, as the scripts beside this one measure it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple


class Cluster(NamedTuple):
    """A cluster in another process, where several brokers have processes of their own below.

    `broker` is the address of the first one, `console` where the console is, if there is one.
    """

    pid: int
    namesrv: str
    broker: str
    console: str = ""


@contextmanager
def cluster() -> Iterator[Cluster]:
    """Runs `pocketmq up` on ports that the system chooses."""
    with (
        tempfile.TemporaryDirectory(prefix="pocketmq-bench-") as directory,
        cluster_in(directory) as started,
    ):
        yield started


@contextmanager
def cluster_in(directory: str, *options: str, errors: IO[bytes] | None = None) -> Iterator[Cluster]:
    """The same on a data directory that may hold something, with further options.

    What it logs goes to `errors`, if that is given.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "pocketmq.cli.main", "up", "--data", directory,
         "--namesrv-port", "0", "--broker-port", "0", *options],
        stdout=subprocess.PIPE, stderr=errors, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        addresses = dict(re.findall(r"([\w-]+)=(\S+)", process.stdout.readline()))
        yield Cluster(process.pid, addresses["namesrv"], addresses["broker-a"],
                      addresses.get("console", ""))  # fmt: skip
    finally:
        process.terminate()
        process.wait()


def processes_of(pid: int) -> list[int]:
    """A process and all that it has started."""
    below = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(found for child in below for found in processes_of(int(child)))]


def memory_kb(pid: int) -> int:
    """The process's share of memory (PSS)."""
    found = re.search(r"^Pss:\s+(\d+)", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.M)
    assert found is not None
    return int(found[1])


def cpu_s(pid: int) -> float:
    """CPU seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
