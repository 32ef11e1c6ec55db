"""Releases of PocketMQ beside the working tree: their code, and processes that run it.

The code of a release is taken from the history of this repository and unpacked below `build/`. A
process of a release finds its own modules before those of the working tree.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
import tempfile
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
UNPACKED = ROOT / "build" / "releases"

RELEASES = {"0.1.0": "afc21a186b2eec9825a5e981ae1379529134a816"}
"""The commits of earlier releases: the last commits of the states that they are."""

THIS = "this"
"""The working tree, where a release is asked for."""

BEFORE = "0.1.0"
"""The release before the working tree's."""


TIMEOUT_S = 300
"""Of a program, on a machine that does much else."""


class MissingReleaseError(Exception):
    """The repository has no commit of a release."""


def unpacked(release: str) -> Path:
    """The folder with the code of a release, which is unpacked when it is asked for first.

    Raises:
        MissingReleaseError: the commit is not there, as in a shallow clone.
    """
    if release == THIS:
        return ROOT
    target = UNPACKED / release
    if target.exists():
        return target
    commit = RELEASES[release]
    run = subprocess.run(
        ["git", "archive", "--format=tar", commit], cwd=ROOT, capture_output=True, check=False
    )
    if run.returncode:
        raise MissingReleaseError(
            f"the commit {commit} of {release} is not here ({run.stderr.decode().strip()}): "
            f"git fetch --unshallow"
        )
    UNPACKED.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=UNPACKED) as beside:
        with tarfile.open(fileobj=io.BytesIO(run.stdout)) as archive:
            archive.extractall(beside, filter="data")
        try:
            Path(beside).rename(target)
        except OSError:
            if not target.exists():  # another process of the tests may have been quicker
                raise
        else:
            Path(beside).mkdir()  # what the context manager removes
    return target


def unpacked_or_skip(release: str) -> Path:
    """The same; the test is skipped without the commit."""
    try:
        return unpacked(release)
    except MissingReleaseError as e:
        pytest.skip(str(e))


@cache
def environment(release: str) -> dict[str, str]:
    """The environment of a process that runs a release's code."""
    root = unpacked_or_skip(release)
    components = sorted(path.parent for path in root.glob("*/pocketmq"))
    assert components, root
    # Nothing that lies in the folder of the process is imported.
    path = os.pathsep.join(map(str, components))
    return os.environ | {"PYTHONPATH": path, "PYTHONSAFEPATH": "1"}


Done = subprocess.CompletedProcess[str]


def command(release: str, *words: str, stdin: str = "") -> Done:
    """Runs a release's command line to its end."""
    return _run(release, "-m", "pocketmq.cli.main", *words, stdin=stdin)


def program(release: str, file: Path, *words: str) -> Done:
    """Runs a Python file with a release's packages to its end, which must be a good one."""
    done = _run(release, str(file), *words)
    assert done.returncode == 0, done.stderr
    return done


def _run(release: str, *words: str, stdin: str = "") -> Done:
    return subprocess.run(
        [sys.executable, *words],
        env=environment(release), cwd=tempfile.gettempdir(),
        input=stdin, capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
