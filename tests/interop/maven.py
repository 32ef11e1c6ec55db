"""Maven builds of the interop tests: done once, repeated only when their sources change."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

# The first build downloads about 80 MB; later ones do not run Maven at all.
BUILD_TIMEOUT_S = 540
OUTPUT_SHOWN_MAX = 4000
STAMP = ".built"


class BuildFailure(Exception):
    """Maven could not build a project of the interop tests."""

    def __init__(self, project: Path, output: str) -> None:
        """Keep the project's folder and what Maven printed."""
        super().__init__(project, output)
        self.project = project
        self.output = output

    def __str__(self) -> str:
        return (
            f"Maven failed in {self.project}; if it cannot download, check the network or "
            f"~/.m2/settings.xml:\n{self.output[-OUTPUT_SHOWN_MAX:]}"
        )


def missing_tools() -> str | None:
    """The reason why nothing here can run on this machine, or None when it can."""
    absent = [tool for tool in ("java", "mvn") if shutil.which(tool) is None]
    if not absent:
        return None
    return f"{' and '.join(absent)} not on PATH: install a JDK 17 or newer and Maven"


def build(project: Path, target: Path, *goals: str) -> Path:
    """Run Maven goals in a project unless ``target`` already holds the result of its sources.

    Returns ``target``; its ``dependency`` folder holds the jars. Raises BuildFailure.
    """
    stamp = target / STAMP
    wanted = " ".join((_digest(project), *goals))
    if stamp.is_file() and stamp.read_text() == wanted:
        return target
    try:
        done = subprocess.run(
            ["mvn", "-q", "-B", "-f", str(project / "pom.xml"), *goals],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=BUILD_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise BuildFailure(project, f"no result within {BUILD_TIMEOUT_S} s") from error
    if done.returncode != 0:
        raise BuildFailure(project, done.stdout)
    stamp.write_text(wanted)
    return target


def _digest(project: Path) -> str:
    """A digest of everything the build reads."""
    digest = hashlib.sha256()
    for source in (project / "pom.xml", *sorted((project / "src").rglob("*.java"))):
        digest.update(source.relative_to(project).as_posix().encode())
        digest.update(source.read_bytes())
    return digest.hexdigest()
