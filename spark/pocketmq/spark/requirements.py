"""Checks what Spark needs of the machine, before its own errors confuse."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, version

from pocketmq.spark.errors import RequirementError

JAVA_VERSION_MIN = 17
PYSPARK_VERSION_MIN = 4
JAVA_TIMEOUT_S = 30
_JAVA_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def check_pyspark() -> None:
    """Checks that PySpark 4 and PyArrow are installed.

    Raises:
        RequirementError: one is missing or too old.
    """
    for package in ("pyspark", "pyarrow"):
        if importlib.util.find_spec(package) is None:
            raise RequirementError(
                f"{package} is not installed", "install it with: pip install 'pocketmq[spark]'"
            )
    try:
        found = version("pyspark")
    except PackageNotFoundError:
        return  # a Spark distribution brings its own, without the record of an installation
    if int(found.partition(".")[0]) < PYSPARK_VERSION_MIN:
        raise RequirementError(
            f"PySpark {found} has no data sources in Python",
            "install PySpark 4 with: pip install 'pocketmq[spark]'",
        )


def check_java() -> None:
    """Checks that Java 17 or newer can be started.

    Raises:
        RequirementError: there is none, or it is too old.
    """
    remedy = (
        f"install Java {JAVA_VERSION_MIN} or newer (Debian and Ubuntu: apt-get install "
        f"openjdk-{JAVA_VERSION_MIN}-jre-headless; macOS: brew install openjdk@{JAVA_VERSION_MIN}) "
        f"and set JAVA_HOME to it if it is not on the PATH"
    )
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if java is None:
        raise RequirementError("Spark needs Java, and there is none on the PATH", remedy)
    try:
        ran = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=JAVA_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as e:
        raise RequirementError(f"Java cannot be started as {java}: {e}", remedy) from e
    match = _JAVA_VERSION.search(ran.stderr + ran.stdout)
    if match is None:
        return  # an unusual Java: let Spark try
    if int(match.group(1)) < JAVA_VERSION_MIN:
        raise RequirementError(f"{java} is Java {match.group(1)}", remedy)
