"""The list of commands is written without loading one of them."""

from __future__ import annotations

import subprocess
import sys

import pytest
from support.commands.here import ok

from pocketmq.cli.main import COMMANDS, command


def test_each_command_is_listed_with_the_line_of_its_own_help() -> None:
    whole = command()
    assert list(whole.commands) == list(COMMANDS)
    lines = {name: one.get_short_help_str(200) for name, one in whole.commands.items()}
    assert lines == {name: entry.help for name, entry in COMMANDS.items()}


def test_the_version_is_printed() -> None:
    assert ok("--version").startswith("pocketmq 0.")


@pytest.mark.process
@pytest.mark.parametrize("word", ["--help", "--version"])
def test_neither_help_nor_version_loads_a_command(word: str) -> None:
    script = (
        "import sys, atexit; from pocketmq.cli.main import run;"
        f"sys.argv[1:] = ['{word}'];"
        "atexit.register(lambda: print(*sys.modules, file=sys.stderr));"
        "run()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    loaded = set(done.stderr.split())
    assert "pocketmq.cli.main" in loaded
    heavy = {"asyncio", "uvloop", "yaml", "numpy", "pocketmq.client", "pocketmq.broker"}
    assert not loaded & heavy
