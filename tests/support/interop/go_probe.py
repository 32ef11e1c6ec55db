"""The Go probe: Apache's client for Go. The commands are described in ``go/main.go``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.interop import builds
from support.interop.probes import run_probe

PROJECT = Path(__file__).parents[2] / "interop" / "go"
REMEDY = "the network or GOPROXY"


@dataclass(frozen=True)
class GoProbe:
    """A built probe; ``home`` takes the offsets of broadcast consumers."""

    program: Path
    home: Path

    def run(self, command: str, **options: object) -> Any:
        """Run one command and return its document, see `run_probe`. Raises ProbeFailure."""
        return run_probe([str(self.program)], command, options, {"HOME": str(self.home)})


def missing_tools() -> str | None:
    """The reason why the probe cannot be built on this machine, or None when it can."""
    missing = builds.missing_tools("go")
    return missing and f"{missing}: install Go 1.22 or newer"


def build_probe(home: Path) -> GoProbe:
    """Build the probe. Raises builds.BuildFailure."""
    target = PROJECT / "target"
    sources = [PROJECT / "go.mod", PROJECT / "go.sum", *PROJECT.glob("*.go")]
    command = ["go", "build", "-mod=readonly", "-buildvcs=false", "-o", f"{target}/", "."]
    target.mkdir(exist_ok=True)
    return GoProbe(builds.build(PROJECT, target, sources, command, REMEDY) / "interop", home)
