"""Runs commands on a real cluster in a temporary directory, and draws what a terminal showed."""

from __future__ import annotations

import os
import pty
import re
import select
import shlex
import subprocess
import sys
import tempfile
from contextlib import suppress
from html import escape
from io import StringIO
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.text import Text

COLUMNS = 92
START_TIMEOUT_S = 20.0
COMMAND_TIMEOUT_S = 30
PROMPT = "$ "
WEB_FONTS = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)
"""Rich's document asks a web server for its font; any monospaced font of the reader's will do."""
FONTS = 'ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace'


class Session(NamedTuple):
    """A picture: its file's name, its title, and the commands in the order they are run."""

    name: str
    title: str
    commands: tuple[str, ...]


UP = "pocketmq up"
SESSIONS = (
    Session(
        "session",
        "A cluster, two messages, and a look at them",
        (
            """pocketmq send Orders '{"id": 1, "amount": 250}' --key 4711 --tag new""",
            """pocketmq send Orders '{"id": 2, "amount": 90}' --key 4712 --tag new""",
            "pocketmq consume Orders --from-beginning --count 2",
            "pocketmq topic stats Orders",
            "pocketmq doctor Orders",
        ),
    ),
    Session(
        "doctor",
        "Why does it not work?",
        (
            "pocketmq topic create Payments --queues 4",
            "pocketmq topic update Payments --read-queues 2",
            "pocketmq doctor Payments",
        ),
    ),
)


def pictures() -> dict[str, str]:
    """Runs each session on a cluster of its own; names of files and their SVG documents.

    Raises:
        RuntimeError: the cluster did not come up (its ports may be in use).
    """
    return {f"{session.name}.svg": _recorded(session) for session in SESSIONS}


def shows(session: Session, svg: str) -> bool:
    """Whether a picture shows the commands of the session."""
    text = svg.replace("&#160;", " ")
    return all(escape(PROMPT + line) in text for line in (f"{UP} &", *session.commands))


def _recorded(session: Session) -> str:
    console = Console(record=True, width=COLUMNS, file=StringIO(), force_terminal=True)
    with tempfile.TemporaryDirectory(prefix="pocketmq-pictures-") as folder:
        cluster, first_line = _start(Path(folder))
        try:
            _show(console, f"{UP} &", first_line)
            for command in session.commands:
                _show(console, command, _run(command, Path(folder)))
        finally:
            cluster.terminate()
            cluster.wait(COMMAND_TIMEOUT_S)
    svg = console.export_svg(title=session.title, unique_id=session.name)
    return WEB_FONTS.sub("", svg).replace("Fira Code, monospace", FONTS)


def _show(console: Console, command: str, printed: str) -> None:
    console.print(Text(PROMPT + command, style="bold green"))
    console.print(Text.from_ansi(printed.rstrip()))


def _environment(folder: Path) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k not in ("NAMESRV_ADDR", "POCKETMQ_PROFILE")}
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    return {
        **kept,
        "PATH": path,
        "TERM": "xterm-256color",
        "COLUMNS": str(COLUMNS),
        "XDG_CONFIG_HOME": str(folder / "config"),
    }


def _start(folder: Path) -> tuple[subprocess.Popen[str], str]:
    """Starts the cluster; its process, and the line that says that it is up."""
    cluster = subprocess.Popen(
        UP.split(),
        cwd=folder,
        env=_environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert cluster.stdout is not None
    ready, _, _ = select.select([cluster.stdout], [], [], START_TIMEOUT_S)
    line = cluster.stdout.readline() if ready else ""
    if not line.startswith("up "):
        cluster.kill()
        raise RuntimeError(f"{UP}: {line}{cluster.stdout.read()}")
    return cluster, line


def _run(command: str, folder: Path) -> str:
    """Runs a command on a terminal of its own; what the terminal showed."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        shlex.split(command), cwd=folder, env=_environment(folder), stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    shown = b""
    with suppress(OSError):  # a terminal whose last writer is gone answers EIO
        while data := os.read(ours, 65_536):
            shown += data
    os.close(ours)
    process.wait(COMMAND_TIMEOUT_S)
    return shown.decode().replace("\r\n", "\n")
