"""OpenTelemetry's Java agent around the Java probe: what it exports of Apache's client."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import NamedTuple

from support.interop import maven
from support.interop.java_probe import PROJECT, JavaProbe
from support.interop.probes import DEADLINE_S, GRACE_S, ProbeFailure

AGENT_VERSION = "2.33.1"
# The agent's default names are those before the conventions for messaging were settled; with these
# no message of a batch has a context.
SETTINGS = {
    "OTEL_SEMCONV_STABILITY_OPT_IN": "messaging",
    "OTEL_TRACES_EXPORTER": "console",
    "OTEL_METRICS_EXPORTER": "none",
    "OTEL_LOGS_EXPORTER": "none",
}
EXPORTED = re.compile(r"LoggingSpanExporter - '(.+)' : ([0-9a-f]{32}) ([0-9a-f]{16}) ([A-Z]+) ")


class JavaSpan(NamedTuple):
    """A span that the agent exported."""

    name: str
    trace_id: int
    span_id: int
    kind: str


def load_agent() -> Path:
    """Load the agent's jar once. Raises builds.BuildFailure."""
    folder = PROJECT / "target" / f"agent-{AGENT_VERSION}"
    artifact = f"io.opentelemetry.javaagent:opentelemetry-javaagent:{AGENT_VERSION}"
    goals = ("dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={folder}")
    return maven.build(PROJECT, folder, *goals) / f"opentelemetry-javaagent-{AGENT_VERSION}.jar"


def run_with_agent(
    probe: JavaProbe, agent: Path, command: str, **options: object
) -> list[JavaSpan]:
    """Run one command of the probe with the agent and return the spans. Raises ProbeFailure."""
    arguments = probe.command(command, deadline_s=DEADLINE_S, **options)
    done = subprocess.run(
        arguments,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=DEADLINE_S + GRACE_S,
        check=False,
        env={**os.environ, **SETTINGS, "JAVA_TOOL_OPTIONS": f"-javaagent:{agent}"},
        cwd=probe.home,
    )
    if done.returncode != 0:
        raise ProbeFailure(arguments, done.returncode, done.stderr)
    return [
        JavaSpan(name, int(trace_id, 16), int(span_id, 16), kind)
        for name, trace_id, span_id, kind in EXPORTED.findall(done.stderr)
    ]
