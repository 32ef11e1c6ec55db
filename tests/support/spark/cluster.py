"""A standalone Spark cluster of this machine: a master and workers in JVMs of their own.

What the jobs need is shipped: the nodes' Python has the packages that a zip cannot carry, and of
this project only what `make spark-zip` packs.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.interop.processes import running

ROOT = Path(__file__).parents[3]
JOBS = ROOT / "spark" / "pocketmq" / "spark" / "jobs"

# Short runs: what a JVM gains by compiling well, it would not get back.
JAVA_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
WORKER_CORES = 1
MASTER_UP = re.compile(r"Starting Spark master at (spark://\S+)")
WORKER_UP = re.compile(r"Successfully registered with master")

NODE_PYTHON = """\
#!/bin/sh
# Python without this project: no .pth file is read, so an editable install is not found.
PYTHONPATH="${{PYTHONPATH:+$PYTHONPATH:}}{packages}" exec {python} -S "$@"
"""


@dataclass(frozen=True)
class SparkCluster:
    """Where jobs are submitted to.

    Attributes:
        master: ``spark://host:port``.
        python: the nodes' Python.
        package: the zip for --py-files.
        directory: where the workers put what they run.
    """

    master: str
    python: Path
    package: Path
    directory: Path

    def executors(self) -> list[int]:
        """The processes that run tasks, told by the directory they work in (Linux only)."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                is_executor = b"CoarseGrainedExecutorBackend" in (process / "cmdline").read_bytes()
                if is_executor and (process / "cwd").resolve().is_relative_to(self.directory):
                    found.append(int(process.name))
            except OSError:
                continue  # it ended meanwhile
        return found

    def submit(
        self, application: Path, *arguments: str, settings: Sequence[str] = ()
    ) -> subprocess.Popen[str]:
        """Starts spark-submit; standard output and error are pipes.

        Args:
            application: a Python file.
            arguments: of the file.
            settings: ``name=value`` for --conf.
        """
        options = [
            *("--master", self.master, "--py-files", str(self.package)),
            *("--driver-memory", "512m", "--executor-memory", "512m"),
            *(f"--conf=spark.{setting}" for setting in (
                "driver.host=127.0.0.1",
                "driver.bindAddress=127.0.0.1",
                "ui.enabled=false",
                f"driver.extraJavaOptions={' '.join(JAVA_OPTIONS)}",
                f"executor.extraJavaOptions={' '.join(JAVA_OPTIONS)}",
                "sql.shuffle.partitions=4",
                *settings,
            )),
        ]  # fmt: skip
        program = spark_home() / "bin" / "spark-submit"
        return subprocess.Popen(
            [str(program), *options, str(application), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment(),
        )

    def environment(self) -> dict[str, str]:
        """Without this process's own paths to the sources, and settings of another Spark."""
        left_out = ("PYTHON", "SPARK", "PYSPARK")
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(left_out)}
        python = str(self.python)
        return {
            **inherited,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": python,
            "PYSPARK_DRIVER_PYTHON": python,
        }


def spark_home() -> Path:
    """Where PySpark lies, with the jars and scripts of Spark."""
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def scala_version(home: Path) -> str:
    """Of the jars, as Spark's own scripts tell its daemons."""
    (library,) = (home / "jars").glob("scala-library-*.jar")
    return ".".join(library.stem.rpartition("-")[2].split(".")[:2])


def node_python(directory: Path) -> Path:
    """A Python that has the packages of this one, but not this project."""
    packages = {
        sysconfig.get_path("purelib"),
        sysconfig.get_path("platlib"),
        str(spark_home().parent),
    }
    path = directory / "node-python"
    path.write_text(NODE_PYTHON.format(packages=":".join(sorted(packages)), python=sys.executable))
    path.chmod(0o755)
    return path


@contextmanager
def spark_cluster(directory: Path, workers: int = 2) -> Iterator[SparkCluster]:
    """Runs a master and workers; raises StartFailure."""
    package = directory / "pocketmq-spark.zip"
    subprocess.run(
        [sys.executable, str(ROOT / "spark" / "make_zip.py"), str(package)],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    java = os.path.join(os.environ.get("JAVA_HOME") or "", "bin", "java")
    home = spark_home()
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_SCALA_VERSION": scala_version(home),  # else a worker takes this for a source tree
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(directory / "spark-local"),
    }

    def command(daemon: str, *arguments: str, host: str = "127.0.0.1") -> list[str]:
        return [
            java if os.path.exists(java) else "java",
            *JAVA_OPTIONS,
            *("-Xmx384m", "-Dspark.master.rest.enabled=false", "-cp", f"{home / 'jars'}/*"),
            f"org.apache.spark.deploy.{daemon}",
            *("--host", host, "--port", "0", "--webui-port", "0"),
            *arguments,
        ]

    with ExitStack() as stack:
        master_command = command("master.Master")
        up = stack.enter_context(running(master_command, MASTER_UP, environment=environment))
        for number in range(workers):
            worker_command = command(
                "worker.Worker",
                *("--cores", str(WORKER_CORES), "--memory", "1g"),
                *("--work-dir", str(directory / f"worker-{number}"), up.group(1)),
                # Spark runs the twin of a slow task on another host only.
                host=f"127.0.0.{1 + number}" if sys.platform == "linux" else "127.0.0.1",
            )
            stack.enter_context(running(worker_command, WORKER_UP, environment=environment))
        yield SparkCluster(up.group(1), node_python(directory), package, directory.resolve())
