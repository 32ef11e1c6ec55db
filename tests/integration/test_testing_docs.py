"""The examples of docs/testing.md run as they stand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

DOCUMENT = Path(__file__).parents[2] / "docs" / "testing.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", DOCUMENT.read_text("utf-8"), re.M | re.S)
TESTS = [block for block in BLOCKS if "def test_" in block]
SCRIPTS = [block for block in BLOCKS if "def test_" not in block]


def test_tests_pass(pytester: pytest.Pytester) -> None:
    for number, block in enumerate(TESTS):
        pytester.makepyfile(**{f"test_example_{number}": block})
    count = sum(block.count("def test_") for block in TESTS)
    assert count >= 7
    options = ("-p", "pocketmq.testing.plugin", "-p", "no:cacheprovider", "-q")
    loops = ("-o", "asyncio_default_fixture_loop_scope=function", "-W", "error")
    pytester.runpytest(*options, *loops).assert_outcomes(passed=count)


def test_scripts_run() -> None:
    assert SCRIPTS
    for block in SCRIPTS:
        exec(compile(block, DOCUMENT.name, "exec"), {})
