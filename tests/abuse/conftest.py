"""The table of attacks, at the end of a run."""

from __future__ import annotations

import pytest
from support.abuse.arena import TOLLS


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Writes what each attack did to the broker and to the honest sender."""
    tolls = config.stash.get(TOLLS, [])
    if not tolls:
        return
    terminalreporter.section("attacks")
    terminalreporter.write_line(f"{'attack':50} {'longest turn':>15} {'honest p99':>12}")
    for name, toll in tolls:
        turn = f"{toll.calls:,} calls" if toll.calls is not None else f"{toll.work_ms:.1f} ms"
        p99 = f"{toll.honest_percentile_ms(0.99):.1f} ms" if toll.honest_ms else "-"
        terminalreporter.write_line(f"{name:50} {turn:>15} {p99:>12}")
