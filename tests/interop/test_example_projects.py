"""The projects of `examples/` in other languages pass their own tests, on clusters they start."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

import pytest
from support.interop import builds, go_probe, maven
from support.interop.processes import output_of

# The first run downloads what they depend on.
pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

EXAMPLES = Path(__file__).parents[2] / "examples"
TIMEOUT_S = 540


@pytest.fixture
def pocketmq(tmp_path: Path) -> str:
    """The command `pocketmq` of this checkout, which is on no PATH."""
    command = tmp_path / "pocketmq"
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m pocketmq.cli.main "$@"\n')
    command.chmod(0o755)
    return str(command)


def run(project: str, pocketmq: str, *command: str) -> str:
    return output_of(
        *command,
        folder=EXAMPLES / project,
        timeout_s=TIMEOUT_S,
        environment={"POCKETMQ": pocketmq},
    )


def test_a_java_project_tests_itself(pocketmq: str) -> None:
    if reason := maven.missing_tools():
        pytest.skip(reason)
    reports = EXAMPLES / "java-orders" / "target" / "surefire-reports"
    with builds.alone():
        run("java-orders", pocketmq, "mvn", "-q", "-B", "test")
    for name, count in (("OrdersTest", 3), ("ShippingTest", 1)):
        report = (reports / f"shop.{name}.txt").read_text("utf-8")
        assert f"Tests run: {count}, Failures: 0, Errors: 0, Skipped: 0" in report


@pytest.mark.whole_interop
def test_a_node_project_tests_itself(pocketmq: str, tmp_path: Path) -> None:
    if shutil.which("npm") is None:
        pytest.skip("there is no npm")
    project = tmp_path / "node-orders"  # npm leaves a folder behind
    shutil.copytree(
        EXAMPLES / "node-orders", project, ignore=shutil.ignore_patterns("node_modules")
    )
    environment = {"POCKETMQ": pocketmq, "HOME": str(tmp_path)}
    for command in (("npm", "install", "--no-audit", "--no-fund"), ("npm", "test")):
        output = output_of(*command, folder=project, timeout_s=TIMEOUT_S, environment=environment)
    assert "# pass 3" in output
    assert "# fail 0" in output


@pytest.mark.whole_interop
def test_a_go_project_tests_itself(pocketmq: str) -> None:
    if reason := go_probe.missing_tools():
        pytest.skip(reason)
    assert run("go-orders", pocketmq, "gofmt", "-l", ".") == ""
    output = run("go-orders", pocketmq, "go", "test", "-count=1", "-v", "./...")
    assert output.count("--- PASS") == 3
