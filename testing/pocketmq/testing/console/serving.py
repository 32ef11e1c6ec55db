"""Makes the console of a cluster for tests."""

from __future__ import annotations

from pathlib import Path

from pocketmq.console.pages.further import Further
from pocketmq.console.pages.pages import Family
from pocketmq.console.server import ConsoleOptions, ConsoleServer
from pocketmq.testing.console.clock_pages import ClockPages
from pocketmq.testing.console.fault_pages import FaultPages
from pocketmq.testing.console.recording import Recording
from pocketmq.testing.console.recording_pages import RecordingPages
from pocketmq.testing.control.calls import ControlCalls
from pocketmq.testing.core import Core

TEMPLATES = Path(__file__).parent / "templates"


def cluster_console(core: Core, calls: ControlCalls, options: ConsoleOptions) -> ConsoleServer:
    """Makes a console with pages for the cluster's time and faults, and for what was done.

    Args:
        core: the running cluster.
        calls: carry out what these pages ask for; the control API shares them.
        options: of the console; TLS is the cluster's.
    """
    recording = Recording(core)
    families: list[Family] = [ClockPages(calls.clock), FaultPages(core, calls)]
    links = [("/clock", "Clock"), ("/faults", "Faults")]
    if not options.no_bodies:  # a recording has the bodies of what was sent
        families.append(RecordingPages(core, recording))
        links.append(("/recording", "Recording"))
    further = Further(
        families=families,
        links=links,
        templates=TEMPLATES,
        heard=recording.heard,
        clock=core.client_clock,
    )
    tls = options.tls if core.certificates is None else core.certificates.client
    return ConsoleServer(
        core.namesrv, options._replace(tls=tls), core.client_clock, further=further
    )


async def serve_console(core: Core, port: int) -> str:
    """Serves a console until the cluster ends; returns its URL.

    Args:
        core: the running cluster.
        port: 0 lets the system choose.

    Raises:
        ConfigError: the port is in use.
    """
    calls = ControlCalls(core)
    server = cluster_console(core, calls, ConsoleOptions(port=port))
    await core.with_it(server)
    return f"http://{server.address}"
