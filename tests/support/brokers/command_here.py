"""The command `pocketmq` in the process of its test: a tenth of the time of a process."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from pocketmq.cli.main import run

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def here(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> Iterator[Command]:
    """Runs the command: its exit code, and what it wrote to both outputs, errors without breaks."""
    with ExitStack() as stack:

        def command(*words: str, stdin: str = "") -> tuple[int, str, str]:
            path = tmp_path / "stdin"
            path.write_bytes(stdin.encode())
            monkeypatch.setattr(sys, "stdin", stack.enter_context(path.open()))
            monkeypatch.setattr(sys, "argv", ["pocketmq", *words])
            with pytest.raises(SystemExit) as ended:
                run()
            out, errors = capfd.readouterr()
            return int(ended.value.code or 0), out, " ".join(errors.replace("│", " ").split())

        yield command
