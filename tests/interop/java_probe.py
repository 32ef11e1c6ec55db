"""The Java probe: Apache's own client behind a command line that answers in one JSON document.

The commands and their options are described in ``java/src/main/java/pocketmq/interop``.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interop import maven

PROJECT = Path(__file__).parent / "java"
CLIENT_VERSION = "5.5.0"
# The probe ends itself after its deadline; the longer timeout is for one that cannot even do that.
DEADLINE_S = 150
RUN_TIMEOUT_S = DEADLINE_S + 30
STDERR_SHOWN_MAX = 6000


class ProbeFailure(Exception):
    """A probe command did not succeed: what it was asked, its exit code, what it said."""

    def __init__(self, arguments: list[str], exit_code: int | None, stderr: str) -> None:
        """Keep the arguments, the exit code (None: it had to be killed) and the error output."""
        super().__init__(arguments, exit_code, stderr)
        self.arguments = arguments
        self.exit_code = exit_code
        self.stderr = stderr

    def __str__(self) -> str:
        ended = "was killed" if self.exit_code is None else f"ended with {self.exit_code}"
        return f"probe {' '.join(self.arguments)} {ended}:\n{self.stderr[-STDERR_SHOWN_MAX:]}"


@dataclass(frozen=True)
class JavaProbe:
    """A built probe; ``home`` takes the log files of Apache's client."""

    classpath: str
    home: Path
    client_version: str

    @property
    def is_5(self) -> bool:
        """Whether Apache's client is of the 5.x series, which can do more than 4.9.x."""
        return self.client_version.startswith("5.")

    def run(self, command: str, *, jvm: Mapping[str, str] | None = None, **options: object) -> Any:
        """Run one command and return its document.

        ``options`` become ``--name value`` (``read_queues=4`` is ``--read-queues 4``), ``jvm``
        system properties, for example ``{"rocketmq.serialize.type": "ROCKETMQ"}``.
        Raises ProbeFailure.
        """
        arguments = [command, "--deadline-s", str(DEADLINE_S)]
        for name, value in options.items():
            arguments += [f"--{name.replace('_', '-')}", str(value)]
        properties = {"user.home": str(self.home), "file.encoding": "UTF-8", **(jvm or {})}
        line = [
            "java",
            "-Xmx256m",
            "-XX:TieredStopAtLevel=1",
            *(f"-D{name}={value}" for name, value in properties.items()),
            "-cp",
            self.classpath,
            "pocketmq.interop.Probe",
            *arguments,
        ]
        try:
            done = subprocess.run(
                line,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=RUN_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise ProbeFailure(arguments, None, f"silent for {RUN_TIMEOUT_S} s") from error
        if done.returncode != 0:
            raise ProbeFailure(arguments, done.returncode, done.stderr)
        return json.loads(done.stdout)


def build_probe(home: Path, client_version: str = CLIENT_VERSION) -> JavaProbe:
    """Build the probe with a version of Apache's client. Raises maven.BuildFailure."""
    target = maven.build(
        PROJECT,
        PROJECT / "target" / client_version,
        f"-Dclient.version={client_version}",
        "dependency:copy-dependencies",
        "compile",
    )
    return JavaProbe(f"{target / 'classes'}:{target / 'dependency'}/*", home, client_version)
