"""The Java probe: Apache's own client in a JVM.

The commands and their options are described in ``java/src/main/java/pocketmq/interop``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.interop import maven
from support.interop.probes import DEADLINE_S, command_line, run_probe

PROJECT = Path(__file__).parents[2] / "interop" / "java"
CLIENT_VERSION = "5.5.0"
OLDEST_COMPILED = "4.9.8"
# The netty of clients before 4.9 wants to reach into these.
OPENED = ("java.lang", "java.nio", "sun.nio.ch")


@dataclass(frozen=True)
class JavaProbe:
    """A built probe; ``home`` takes the files that Apache's client writes."""

    classpath: str
    home: Path
    client_version: str

    @property
    def is_5(self) -> bool:
        """Whether Apache's client is of the 5.x series, which can do more than 4.9.x."""
        return self.client_version.startswith("5.")

    def run(
        self,
        command: str,
        *,
        jvm: Mapping[str, str] | None = None,
        deadline_s: int = DEADLINE_S,
        **options: object,
    ) -> Any:
        """Run one command and return its document, see `run_probe`.

        ``jvm`` are system properties, for example ``{"rocketmq.serialize.type": "ROCKETMQ"}``.
        Raises ProbeFailure.
        """
        return run_probe(
            self._program(jvm), command, options, deadline_s=deadline_s, folder=self.home
        )

    def command(self, command: str, **options: object) -> list[str]:
        """The command line of a command that runs for as long as it is wanted."""
        return [*self._program(None), *command_line(command, options)]

    def _program(self, jvm: Mapping[str, str] | None) -> list[str]:
        properties = {"user.home": str(self.home), "file.encoding": "UTF-8", **(jvm or {})}
        return [
            "java",
            "-Xmx256m",
            "-XX:TieredStopAtLevel=1",
            *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED),
            *(f"-D{name}={value}" for name, value in properties.items()),
            "-cp",
            self.classpath,
            "pocketmq.interop.Probe",
        ]


def build_probe(home: Path, client_version: str = CLIENT_VERSION) -> JavaProbe:
    """Build the probe with a version of Apache's client.

    With one that is too old to compile with, it is compiled with OLDEST_COMPILED: its commands run
    as long as they ask for nothing newer. Raises builds.BuildFailure.
    """
    if is_older(client_version, OLDEST_COMPILED):
        classes = _build(OLDEST_COMPILED, "dependency:copy-dependencies", "compile")
        target = _build(client_version, "dependency:copy-dependencies")
    else:
        classes = target = _build(client_version, "dependency:copy-dependencies", "compile")
    return JavaProbe(f"{classes / 'classes'}:{target / 'dependency'}/*", home, client_version)


def is_older(version: str, other: str) -> bool:
    """Whether one version of Apache's client came before another."""
    return _numbers(version) < _numbers(other)


def _numbers(version: str) -> list[int]:
    return [int(number) for number in version.split(".")]


def _build(client_version: str, *goals: str) -> Path:
    target = PROJECT / "target" / client_version
    return maven.build(PROJECT, target, f"-Dclient.version={client_version}", *goals)
