"""Clocks of processes that are wrong: a library that is loaded before libc changes their time."""

from __future__ import annotations

import mmap
import shutil
import struct
import subprocess
from pathlib import Path

from pocketmq.runtime.clock import SystemClock

SOURCE = Path(__file__).with_name("clock_shim.c")


def build(folder: Path) -> Path | None:
    """Compiles the library; None where there is no compiler, and so no wrong clocks."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    library = folder / "clock_shim.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-Wall", "-o", library, SOURCE, "-ldl"],
                   check=True)  # fmt: skip
    return library


class WrongClock:
    """The clock of one machine.

    Args:
        library: of `build`.
        path: of the file by which the machine's processes are told.
        rate_ppm: parts of a million by which its monotonic clock runs too fast.
    """

    def __init__(self, library: Path, path: Path, rate_ppm: int = 0) -> None:
        begun_ns = int(SystemClock.monotonic() * 1e9)
        path.write_bytes(struct.pack("=qqq", 0, rate_ppm, begun_ns))
        self.environment = {"LD_PRELOAD": str(library), "SHIM_CLOCK": str(path)}
        with path.open("r+b") as file:
            self._shared = mmap.mmap(file.fileno(), 24)

    def step(self, seconds: float) -> None:
        """Sets the wall clock to so many seconds after the right time, at once."""
        self._shared[:8] = struct.pack("=q", int(seconds * 1e9))
