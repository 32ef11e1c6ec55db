"""The command `pocketmq` in the process of its test: a tenth of the time of a process."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from subprocess import CompletedProcess
from tempfile import TemporaryFile

import pytest

from pocketmq.cli.main import run

Command = Callable[..., tuple[int, str, str]]


def pocketmq(*words: str, stdin: str | None = None) -> CompletedProcess[str]:
    """Runs the command to its end, where no event loop runs; signals go to this process.

    Args:
        words: its arguments.
        stdin: what it reads.
    """
    with _file(stdin or "") as given, _file() as out, _file() as errors:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", ["pocketmq", *words])
            patch.setattr(sys, "stdin", given)
            patch.setattr(sys, "stdout", out)
            patch.setattr(sys, "stderr", errors)
            with pytest.raises(SystemExit) as ended:
                copy_context().run(run)  # what it chooses for its process ends with it
        code = int(ended.value.code or 0)
        return CompletedProcess(words, code, _content(out), _content(errors))


def ok(*words: str, stdin: str | None = None) -> str:
    """Runs the command, which succeeds; what it wrote to its standard output."""
    done = pocketmq(*words, stdin=stdin)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def here() -> Command:
    """Runs the command: its exit code, and what it wrote to both outputs, errors without breaks."""

    def command(*words: str, stdin: str = "") -> tuple[int, str, str]:
        done = pocketmq(*words, stdin=stdin)
        return done.returncode, done.stdout, " ".join(done.stderr.replace("│", " ").split())

    return command


@contextmanager
def _file(content: str = "") -> Iterator[io.TextIOWrapper]:
    """A file in the place of a standard stream, with a descriptor of its own as those have."""
    with TemporaryFile("w+", encoding="utf-8", newline="") as file:
        file.write(content)
        file.seek(0)
        yield file


def _content(file: io.TextIOWrapper) -> str:
    file.flush()
    file.seek(0)
    return file.read()
