"""The examples of docs/testing.md, and the sample project, run as they stand.

`tests/interop/test_example_projects.py` runs the projects in Java and Go, and `test_containers.py`
beside it the snippets for Testcontainers.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from pocketmq.cli.main import app

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "testing.md"
SAMPLE = ROOT / "examples" / "order_service"
TIMEOUT_S = 100.0
OPTIONS = ("-p", "pocketmq.testing.plugin", "-p", "no:cacheprovider", "-q", "-W", "error")
BLOCKS = re.findall(r"^```python\n(.*?)^```", DOCUMENT.read_text("utf-8"), re.M | re.S)
FOREIGN = "# with testcontainers"
TEXT = DOCUMENT.read_text("utf-8")
TESTS = [block for block in BLOCKS if "def test_" in block]
SCRIPTS = [b for b in BLOCKS if "def test_" not in b and FOREIGN not in b]


def test_tests_pass(pytester: pytest.Pytester) -> None:
    for number, block in enumerate(TESTS):
        pytester.makepyfile(**{f"test_example_{number}": block})
    count = sum(block.count("def test_") for block in TESTS)
    assert count >= 7
    loops = ("-o", "asyncio_default_fixture_loop_scope=function")
    pytester.runpytest(*OPTIONS, *loops).assert_outcomes(passed=count)


def test_scripts_run() -> None:
    assert SCRIPTS
    for block in SCRIPTS:
        exec(compile(block, DOCUMENT.name, "exec"), {})


def test_workflows_are_valid_and_call_what_there_is() -> None:
    workflows = [
        yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```", TEXT, re.M | re.S)
    ]
    assert len(workflows) == 2
    command: Any = get_command(app)
    jobs = [job for workflow in workflows for job in workflow["jobs"].values()]
    steps = [step for job in jobs for step in job["steps"]]
    assert all(("run" in step) != ("uses" in step) for step in steps)
    services = [service for job in jobs for service in job.get("services", {}).values()]
    texts = [step.get("run", "") for step in steps] + [one["options"] for one in services]
    commands = [re.findall(r"\bpocketmq ((?:up|health) [^\"&\n]+)", text) for text in texts]
    found = [words for some in commands for words in some]
    assert len(found) == 2
    for words in found:
        name, sub, rest = command.resolve_command(
            command.make_context("pocketmq", ["up"]), words.split()
        )
        sub.make_context(name, list(rest))
    up = command.get_command(command.make_context("pocketmq", ["up"]), "up")
    read = {option.envvar for option in up.params if option.envvar}
    assert all(set(service["env"]) <= read for service in services)


def test_containers_of_tests_are_started_by_a_command_there_is() -> None:
    """The words of the three Testcontainers snippets are the same, and `up` takes them."""
    java = re.search(r"\bwithCommand\((.*?)\)", TEXT)
    go = re.search(r"Cmd: +\[\]string\{(.*?)\}", TEXT)
    python = re.search(r"with_command\(\"(.*?)\"\)", TEXT)
    assert java is not None
    assert go is not None
    assert python is not None
    words = python.group(1).split()
    assert re.findall(r'"(.*?)"', java.group(1)) == re.findall(r'"(.*?)"', go.group(1)) == words
    command: Any = get_command(app)
    name, sub, rest = command.resolve_command(command.make_context("pocketmq", ["up"]), words)
    assert sub.make_context(name, list(rest)).params["control"] == 8090


@pytest.mark.process
def test_the_sample_project_passes_its_tests_as_it_is_installed(tmp_path: Path) -> None:
    """Wheels of this checkout and of the project, in a place of their own, and pytest on its tests.

    What both depend on is installed already, and nothing is asked of a package index.
    """
    installed = tmp_path / "site"
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet")
    options = ("--no-index", "--no-deps", "--no-build-isolation", "--target", str(installed))
    run(tmp_path, *pip, *options, str(ROOT), str(SAMPLE))
    run(tmp_path, str(installed / "bin" / "pocketmq"), "--help", installed=installed)
    script = "import order_service, pocketmq.testing.plugin as plugin\n"
    script += "print(order_service.__file__, plugin.__file__)"
    files = run(tmp_path, sys.executable, "-c", script, installed=installed).split()
    assert [Path(file).is_relative_to(installed) for file in files] == [True, True]

    project = tmp_path / "project"
    project.mkdir()
    shutil.copytree(SAMPLE / "tests", project / "tests")
    shutil.copy(SAMPLE / "pyproject.toml", project)
    words = ("-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider")
    assert "6 passed" in run(project, sys.executable, *words, installed=installed)


def run(folder: Path, *command: str, installed: Path | None = None) -> str:
    """Runs a command; before all else, Python there looks at what was installed."""
    environment = {**os.environ, **({"PYTHONPATH": str(installed)} if installed else {})}
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
