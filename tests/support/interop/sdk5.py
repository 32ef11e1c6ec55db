"""RocketMQ 5's SDKs: how the probe of each language is built, and the command that runs it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from support.interop import builds, go_probe, maven

FOLDER = Path(__file__).parents[2] / "interop" / "sdk5"
# Some SDKs take no answer of more than 4 MiB, and a message is more than its body.
LESS_THAN_AN_ANSWER = 4 * 1024 * 1024 - 4096


class Sdk(NamedTuple):
    """The SDK of a language.

    Attributes:
        missing_tools: why the probe cannot be built on this machine; None when it can.
        build: builds it and returns its command.
        transport: "tls" or "plain", as the SDK does it by default.
        large_size: bytes of the largest body that it sends and receives.
        lacks: what it does not know, of "push" and "recall".
    """

    missing_tools: Callable[[], str | None]
    build: Callable[[], list[str]]
    transport: str = "plain"
    large_size: int = 4 * 1024 * 1024
    lacks: frozenset[str] = frozenset()


def _java() -> list[str]:
    target = FOLDER / "java" / "target"
    maven.build(FOLDER / "java", target, "dependency:copy-dependencies", "compile")
    path = f"{target / 'classes'}:{target / 'dependency'}/*"
    return ["java", "-Xmx512m", "-cp", path, "pocketmq.sdk5.Probe"]


def _go() -> list[str]:
    project, target = FOLDER / "go", FOLDER / "go" / "target"
    target.mkdir(exist_ok=True)
    sources = [project / "go.mod", project / "go.sum", project / "main.go"]
    command = ["go", "build", "-mod=readonly", "-buildvcs=false", "-o", f"{target}/sdk5", "."]
    builds.build(project, target, sources, command, go_probe.REMEDY)
    return [str(target / "sdk5")]


def _python() -> list[str]:
    """In an environment of its own: it needs other versions of what this project needs."""
    project, target = FOLDER / "python", FOLDER / "python" / "target"
    target.mkdir(exist_ok=True)
    wanted = project / "requirements.txt"
    script = (
        f"{sys.executable} -m venv {target}/venv && "
        f"{target}/venv/bin/pip install -q --disable-pip-version-check -r {wanted}"
    )
    builds.build(project, target, [wanted], ["sh", "-c", script], "the network")
    return [f"{target}/venv/bin/python", str(project / "probe.py")]


def _node() -> list[str]:
    project, target = FOLDER / "node", FOLDER / "node" / "target"
    target.mkdir(exist_ok=True)
    command = ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--silent"]
    builds.build(project, target, [project / "package.json"], command, "the network")
    return ["node", str(project / "probe.js")]


def _rust() -> list[str]:
    project, target = FOLDER / "rust", FOLDER / "rust" / "target"
    target.mkdir(exist_ok=True)
    sources = [project / "Cargo.toml", project / "src" / "main.rs"]
    builds.build(project, target, sources, ["cargo", "build", "--quiet"], "the network")
    return [str(target / "debug" / "sdk5")]


def _tools(*names: str) -> Callable[[], str | None]:
    return lambda: builds.missing_tools(*names)


SDKS = {
    "java": Sdk(maven.missing_tools, _java, transport="tls"),
    "go": Sdk(go_probe.missing_tools, _go, transport="tls"),
    "python": Sdk(lambda: None, _python),
    "node": Sdk(_tools("node", "npm"), _node, large_size=LESS_THAN_AN_ANSWER),
    "rust": Sdk(
        _tools("cargo"),
        _rust,
        large_size=LESS_THAN_AN_ANSWER,
        lacks=frozenset({"push", "recall"}),
    ),
}
