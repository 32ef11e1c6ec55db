"""The units in deploy/systemd, and what servers tell the service manager that starts them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

UNITS = sorted((Path(__file__).parents[2] / "deploy" / "systemd").glob("*.service"))
NAMES = [unit.name for unit in UNITS]
EXPOSURE_MAX = 2.0
"""Of 10, as `systemd-analyze security` counts; a unit that says nothing of security has 9.6."""

needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd is not installed here"
)


def analyze(*words: str) -> str:
    done = subprocess.run(
        ("systemd-analyze", *words), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_there_is_a_unit_for_each_kind_of_server() -> None:
    assert NAMES == ["pocketmq-broker.service", "pocketmq-namesrv.service"]


@needs_systemd
@pytest.mark.parametrize("unit", UNITS, ids=NAMES)
def test_systemd_understands_all_of_a_unit(unit: Path, tmp_path: Path) -> None:
    here = tmp_path / unit.name
    # The command is not installed where the units say.
    here.write_text(unit.read_text().replace("/opt/pocketmq/bin/pocketmq", "/bin/true"))
    said = analyze("verify", str(here))
    assert unit.name not in said, said


@needs_systemd
@pytest.mark.parametrize("unit", UNITS, ids=NAMES)
def test_a_unit_may_do_little(unit: Path) -> None:
    said = analyze("security", "--offline=true", "--no-pager", str(unit))
    level = re.search(r"Overall exposure level for \S+: ([\d.]+)", said)
    assert level is not None
    assert float(level.group(1)) <= EXPOSURE_MAX, said


@pytest.mark.parametrize("unit", UNITS, ids=NAMES)
def test_a_unit_waits_for_ready_and_gives_the_stop_time(unit: Path) -> None:
    text = unit.read_text()
    given = dict(re.findall(r"^(\w+)=(.*)$", text, re.MULTILINE))
    kind = unit.stem.removeprefix("pocketmq-")
    assert given["ExecStart"] == f"/opt/pocketmq/bin/pocketmq {kind} -c %d/{kind}.yaml"
    assert given["Type"] == "notify"
    assert given["DynamicUser"] == "yes"
    assert given["ProtectSystem"] == "strict"
    assert given["Restart"] == "on-failure", "the watchdog's signal counts as a failure"
    assert int(given["WatchdogSec"]) >= 30
    assert int(given["TimeoutStopSec"]) >= 30
    assert given["StateDirectory"] == unit.stem
