"""Broker sets of real processes whose machines, links, disks and clocks fail under load.

make failover                       # 200 runs
.venv/bin/python -m pytest tests/failover --seed 7 --failover-runs 1

A seed decides what is done and when, not how fast the machine is: a run does not repeat exactly.
What servers and clients said stays in the folder of a run that failed.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest
from support.failover import world
from support.failover.play import Plan, Report
from support.interop import maven
from support.interop.java_probe import build_probe

pytestmark = pytest.mark.crash

RUN_S_MAX = 600
PARTS = 4
"""Tests that share the runs: a run waits most of its time, so that more of them than cores fit."""

JAVA_EVERY = 3
"""With one of so many seeds Apache's client works beside this project's."""


@pytest.fixture
def runs(request: pytest.FixtureRequest) -> int:
    """How many sets are disturbed in one test."""
    count: int = request.config.getoption("--failover-runs")
    return count


@pytest.fixture(autouse=True)
def _world() -> None:
    if reason := world.missing():
        pytest.skip(reason)


def play(folder: Path, plan: Plan) -> Report:
    """One run; see `support.failover.play`."""
    folder.mkdir()
    command = world.entering(
        "support.failover.play", str(folder), msgspec.json.encode(plan).decode()
    )
    with (folder / "stderr").open("wb") as stderr:
        done = subprocess.run(
            command, cwd=Path(__file__).parents[1], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=stderr, timeout=RUN_S_MAX, check=False,
        )  # fmt: skip
    assert done.returncode == 0, (folder / "stderr").read_text()[-4000:]
    return msgspec.json.decode(done.stdout, type=Report)


def plan_of(seed: int, folder: Path) -> Plan:
    """What a seed stands for: sets of two and of three, some with Apache's client."""
    plan = Plan(seed=seed, members=2 + seed % 2)
    if seed % JAVA_EVERY == 0 and not maven.missing_tools():
        plan.java = build_probe(folder).classpath, str(folder)
    return plan


def assert_sound(folder: Path, plan: Plan, report: Report) -> None:
    lines = [
        *report.violations, "-- what was done", *report.events,
        f"-- settings {report.settings}", f"-- counts {report.counts}",
        f"-- in {folder}; repeat it with --seed {plan.seed} --failover-runs 1",
    ]  # fmt: skip
    assert not report.violations, "\n".join(lines)


@pytest.mark.timeout(200 * RUN_S_MAX)
@pytest.mark.parametrize("part", range(PARTS))
def test_no_fault_breaks_what_clients_were_told(
    tmp_path: Path, seed: int, runs: int, part: int
) -> None:
    for number in range(part, runs, PARTS):
        folder, plan = tmp_path / str(number), plan_of(seed + number, tmp_path)
        report = play(folder, plan)
        assert_sound(folder, plan, report)
        assert report.counts["acknowledged"] > 0
        shutil.rmtree(folder)
