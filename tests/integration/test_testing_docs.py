"""The examples of docs/testing.md, and the sample project, run as they stand."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "testing.md"
SAMPLE = ROOT / "examples" / "order_service"
OPTIONS = ("-p", "pocketmq.testing.plugin", "-p", "no:cacheprovider", "-q", "-W", "error")
BLOCKS = re.findall(r"^```python\n(.*?)^```", DOCUMENT.read_text("utf-8"), re.M | re.S)
TESTS = [block for block in BLOCKS if "def test_" in block]
SCRIPTS = [block for block in BLOCKS if "def test_" not in block]


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


def test_the_sample_project_passes_its_tests(pytester: pytest.Pytester) -> None:
    shutil.copytree(SAMPLE, pytester.path, dirs_exist_ok=True)
    pytester.runpytest_subprocess(*OPTIONS).assert_outcomes(passed=6)
