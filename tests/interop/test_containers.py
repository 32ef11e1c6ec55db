"""The Testcontainers snippets of docs/testing.md: compiled, and run where there is Docker.

They run when a Docker daemon answers that has the image `pocketmq:local` (deploy/Dockerfile).
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.interop import builds, go_probe, maven
from support.interop.processes import output_of

# The first run downloads what they depend on.
pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

PROJECTS = Path(__file__).parent / "containers"
DOCUMENT = Path(__file__).parents[2] / "docs" / "testing.md"
IMAGE = "pocketmq:local"
TIMEOUT_S = 540
ASK_TIMEOUT_S = 60


def snippet(language: str) -> str:
    """The block of the page for Testcontainers in a language."""
    text = DOCUMENT.read_text("utf-8")
    blocks: list[str] = re.findall(rf"^```{language}\n(.*?)^```", text, re.M | re.S)
    (found,) = [block for block in blocks if "testcontainers" in block]
    return found


@pytest.fixture(scope="module")
def has_image() -> bool:
    """Whether containers of the image can be started here."""
    if shutil.which("docker") is None:
        return False
    command = ("docker", "image", "inspect", IMAGE)
    done = subprocess.run(command, capture_output=True, timeout=ASK_TIMEOUT_S, check=False)
    return done.returncode == 0


def run(project: Path, *command: str) -> str:
    # Its clean-up container is an image of a registry, which may not be reached.
    environment = {"TESTCONTAINERS_RYUK_DISABLED": "true"}
    return output_of(*command, folder=project, timeout_s=TIMEOUT_S, environment=environment)


def test_the_java_class(tmp_path: Path, has_image: bool) -> None:
    if reason := maven.missing_tools():
        pytest.skip(reason)
    project = tmp_path / "java"
    shutil.copytree(PROJECTS / "java", project)
    (project / "src" / "test" / "java" / "PocketMqContainer.java").write_text(snippet("java"))
    with builds.alone():
        run(project, "mvn", "-q", "-B", "test" if has_image else "test-compile")
    if has_image:
        (report,) = (project / "target" / "surefire-reports").glob("*.txt")
        assert "Tests run: 1, Failures: 0, Errors: 0, Skipped: 0" in report.read_text("utf-8")


@pytest.mark.whole_interop  # its dependencies take half a minute to compile
def test_the_go_function(tmp_path: Path, has_image: bool) -> None:
    if reason := go_probe.missing_tools():
        pytest.skip(reason)
    project = tmp_path / "go"
    shutil.copytree(PROJECTS / "go", project)
    (project / "pocketmq_test.go").write_text(f"package containers\n\n{snippet('go')}")
    assert run(project, "gofmt", "-l", ".") == ""
    run(project, "go", "vet", "-mod=readonly", "./...")
    if has_image:
        assert "--- PASS" in run(project, "go", "test", "-count=1", "-v", "./...")


def test_the_python_fixture(tmp_path: Path, has_image: bool) -> None:
    (tmp_path / "conftest.py").write_text(snippet("python"))
    shutil.copy(PROJECTS / "python" / "container_example.py", tmp_path / "test_container.py")
    loops = ("-o", "asyncio_default_fixture_loop_scope=function")
    options = ("-p", "no:cacheprovider", "-q", "-W", "error", "--rootdir", ".", *loops)
    only = () if has_image else ("--setup-plan",)
    output = run(tmp_path, sys.executable, "-m", "pytest", *options, *only)
    assert ("1 passed" if has_image else "SETUP    S pocketmq_container") in output
