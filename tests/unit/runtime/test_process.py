from __future__ import annotations

import asyncio
import gc
import os
import platform
import subprocess
import sys

import pytest

from pocketmq.runtime.process import run, spare_what_stays


def test_runs_on_uvloop() -> None:
    async def main() -> str:
        return type(asyncio.get_running_loop()).__module__

    assert run(main()).startswith("uvloop")


def test_the_collector_looks_no_more_at_what_stays() -> None:
    stays: list[list[int]] = [[]]
    try:
        spare_what_stays()
        assert not any(tracked is stays for tracked in gc.get_objects())
        assert gc.get_freeze_count()
    finally:
        gc.unfreeze()


needs_glibc = pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="only glibc's malloc can be told"
)

FREEING = """
import os
from pathlib import Path
from pocketmq.runtime.process import keep_freed_memory

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

{first}
before = resident()
several = [b"x" * (8 << 20) for _ in range(3)]
several = None
print(resident() - before)
"""


def kept_bytes(first: str, **variables: str) -> str:
    """What a process says that has freed 24 MiB: how many bytes of them it still has."""
    usual = {k: v for k, v in os.environ.items() if not k.startswith("MALLOC_")}
    return subprocess.run(
        [sys.executable, "-c", FREEING.format(first=first)],
        env=usual | variables,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()


@pytest.mark.process
@needs_glibc
def test_a_server_keeps_freed_memory() -> None:
    assert int(kept_bytes("")) < 8 << 20
    does_keep, kept = kept_bytes("print(keep_freed_memory())").split()
    assert does_keep == "True"
    assert int(kept) > 20 << 20


@pytest.mark.process
@needs_glibc
def test_kept_memory_can_be_given_back() -> None:
    first = "from pocketmq.runtime.process import give_back_freed_memory\nkeep_freed_memory()"
    told = FREEING.replace("print(resident()", "print(give_back_freed_memory())\nprint(resident()")
    output = subprocess.run(
        [sys.executable, "-c", told.format(first=first)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert output[0] == "True"
    assert int(output[1]) < 8 << 20


@pytest.mark.process
@needs_glibc
def test_who_sets_mallocs_own_variables_is_obeyed() -> None:
    told = kept_bytes("print(keep_freed_memory())", MALLOC_TRIM_THRESHOLD_="131072")
    assert told.startswith("False")
