"""Makes a file for pytest of a recording; the file needs the plugin of `pocketmq.testing` alone."""

from __future__ import annotations

from pocketmq.testing.console.recording import Recording, Step
from pocketmq.testing.settings import ClusterSettings

GAP_MS = 1000
"""Time that has gone by between two steps is passed in the test when it has come to so much, or
when the next step depends on it."""


def pytest_file(recording: Recording, settings: ClusterSettings) -> str:
    """Returns the text of the file.

    The test has a cluster of the same size whose clock stands still, sets the clock forward as it
    went in the session, and checks in the end that the topics hold as many of the messages.

    Args:
        recording: what was done.
        settings: of the cluster.
    """
    lines = [*_steps(recording), *_checks(recording)]
    used = "\n".join(lines)
    begin = ["cluster = pocketmq"]
    if "names." in used:
        begin.append("names = Namespace(cluster.namespace)")
    if "began_ms" in used:
        begin.append("began_ms = cluster.clock.now_ms()")
    clients = [
        f"cluster.{name}() as {name}" for name in ("producer", "admin") if f"{name}." in used
    ]
    if clients:
        lines = [f"with {', '.join(clients)}:", *(f"    {line}" for line in lines)]
    body = "\n".join(f"    {line}".rstrip() for line in [*begin, *lines])
    return f'''"""Made by a console of PocketMQ: does again what was done there.

Run it with pytest where pocketmq[testing] is installed.
"""

{_imports(used)}

@pytest.mark.pocketmq({_options(recording, settings)})
def test_recorded(pocketmq):
{body}
'''


def _imports(used: str) -> str:
    lines = ["import pytest", ""]
    names = [name for name in ("Message", "MessageQueue") if f"{name}(" in used]
    if names:
        lines.append(f"from pocketmq.client import {', '.join(names)}")
    if "names." in used:
        lines.append("from pocketmq.protocol.names.namespaces import Namespace")
    return "\n".join([*lines, ""] if len(lines) > 2 else lines)


def _options(recording: Recording, settings: ClusterSettings) -> str:
    options: dict[str, object] = {"clock": "virtual"}
    if settings.brokers > 1:
        options["brokers"] = settings.brokers
    if settings.replicas > 1:
        options["replicas"] = settings.replicas
    if recording.topics:
        options["topics"] = recording.topics
    if recording.groups:
        options["groups"] = recording.groups
    return ", ".join(f"{name}={value!r}" for name, value in options.items())


def _steps(recording: Recording) -> list[str]:
    """The lines of all steps, with the time between them."""
    lines: list[str] = []
    passed_ms = 0
    for step in [*recording.steps, Step(recording.elapsed_ms, [])]:
        gap_ms = step.elapsed_ms - passed_ms
        if gap_ms >= (1 if step.needs_time else GAP_MS):
            lines.append(f"cluster.clock.advance(milliseconds={gap_ms})")
            passed_ms = step.elapsed_ms
        lines += step.lines
    if recording.is_cut:
        lines.append("# The session had further steps, for which the recording had no room.")
    return lines


def _checks(recording: Recording) -> list[str]:
    return [
        f"assert len(cluster.published({topic!r})) == {count}"
        for topic, count in recording.held().items()
    ]
