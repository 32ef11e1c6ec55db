"""h2spec: a program that tests servers against the RFCs of HTTP/2 and HPACK."""

from __future__ import annotations

from pathlib import Path

from support.interop import builds

PROJECT = Path(__file__).parents[2] / "interop" / "h2spec"
PROGRAM = "github.com/summerwind/h2spec/cmd/h2spec"
REMEDY = "the network or GOPROXY"


def build_h2spec() -> Path:
    """Build the program and return its path. Raises builds.BuildFailure."""
    target = PROJECT / "target"
    sources = [PROJECT / "go.mod", PROJECT / "go.sum"]
    command = ["go", "build", "-mod=readonly", "-buildvcs=false", "-o", f"{target}/", PROGRAM]
    target.mkdir(exist_ok=True)
    return builds.build(PROJECT, target, sources, command, REMEDY) / "h2spec"
