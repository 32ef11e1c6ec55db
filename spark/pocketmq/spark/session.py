"""Makes Spark sessions: a local one that keeps quiet, or that of a job."""

from __future__ import annotations

import atexit
import logging
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pocketmq.spark import interrupts
from pocketmq.spark.fork_server.starting import spark_python
from pocketmq.spark.gateway import start_context
from pocketmq.spark.requirements import check_java, check_pyspark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DRIVER_MEMORY = "1g"

COLLECTOR = "-XX:+UseParallelGC"
"""Java's own choice, G1, works beside the job, which then has less of the few cores of a machine: a
first job takes a quarter more CPU time with it."""

_JAVA_VARIABLES = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")

SUBMITTED_VARIABLE = "PYSPARK_GATEWAY_PORT"
"""Set by spark-submit: the JVM is there already, with the settings of the cluster."""

_CONTEXT_LOGGERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
"""PySpark logs each refused query as a line of JSON before it raises the same."""

_LOG4J = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
logger.spark.name = org.apache.spark
logger.spark.level = error
logger.task.name = org.apache.spark.scheduler.TaskSetManager
logger.task.level = off
logger.executor.name = org.apache.spark.executor.Executor
logger.executor.level = off
logger.utils.name = org.apache.spark.util.Utils
logger.utils.level = off
logger.write.name = org.apache.spark.sql.execution.datasources
logger.write.level = off
"""
"""Settings of the log when the JVM starts; failed tasks are raised, not logged."""


def local_session(
    app_name: str = "pocketmq",
    *,
    cores: int | None = None,
    driver_memory: str = DRIVER_MEMORY,
    settings: dict[str, str] | None = None,
) -> SparkSession:
    """Returns the active session, or starts one on this machine that knows the format ``pocketmq``.

    Nothing is printed to standard output, and only errors to standard error.

    Args:
        app_name: of a new session.
        cores: how many to use; all without it.
        driver_memory: of the one process that all runs in.
        settings: further settings of Spark.

    Raises:
        RequirementError: PySpark, PyArrow or Java is missing or too old.
    """
    check_pyspark()
    _quieten_python()
    from pyspark.sql import SparkSession

    from pocketmq.spark import register

    spark = SparkSession.getActiveSession()
    if spark is None:
        spark = _started(app_name, cores, driver_memory, settings or {})
    register(spark)
    return spark


def _started(
    app_name: str, cores: int | None, driver_memory: str, settings: dict[str, str]
) -> SparkSession:
    """Starts a local session, which does not know the format yet."""
    _quieten_python()
    check_java()
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

    # Workers have to find the same packages as this process, whatever the PATH says.
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["PYSPARK_PYTHON"] = spark_python()
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    conf = SparkConf().setMaster(f"local[{cores or '*'}]").setAppName(app_name)
    conf.setAll([*{**_defaults(driver_memory), **settings}.items()])
    start_context(conf)
    spark = SparkSession.builder.config(conf=conf).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _defaults(driver_memory: str) -> dict[str, str]:
    return {
        "spark.driver.memory": driver_memory,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": _java_options(),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "16",
        "spark.log.level": "ERROR",
    }


def _java_options() -> str:
    """Options of the JVM; the collector, of which it takes one only, unless the user has one."""
    chosen = any("GC" in os.environ.get(variable, "") for variable in _JAVA_VARIABLES)
    collector = [] if chosen else [COLLECTOR]
    return " ".join([f"-Dlog4j2.configurationFile={_log4j_file()}", *collector])


def make_active(spark: SparkSession) -> None:
    """Makes a session the active one of this thread; PySpark has no call of its own for that."""
    java_session = getattr(spark, "_jsparkSession", None)  # a Spark Connect session has none
    jvm = spark._jvm if java_session is not None else None
    if jvm is not None:
        jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(java_session)


def _quieten_python() -> None:
    """Silences what PySpark writes to standard error of pandas, of Ctrl-C, and before it raises."""
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    warnings.filterwarnings("ignore", "Unable to cleanly shutdown Spark JVM", RuntimeWarning)
    for name in _CONTEXT_LOGGERS:
        logging.getLogger(name).disabled = True


def _log4j_file() -> Path:
    """Writes the settings of the log, which the JVM reads when it starts; returns the file."""
    handle, name = tempfile.mkstemp(prefix="pocketmq-log4j2-", suffix=".properties")
    path = Path(name)
    with open(handle, "w", encoding="utf-8") as file:
        file.write(_LOG4J)
    atexit.register(path.unlink, missing_ok=True)
    return path


@contextmanager
def job_session(
    app_name: str,
    cores: int | None,
    spark: SparkSession | None = None,
    *,
    registers: bool = True,
) -> Iterator[SparkSession]:
    """Yields the session of a job: the given one, that of spark-submit, the active or a local one.

    A local session that is made for the job is stopped after it.

    Args:
        app_name: of a new session.
        cores: of a local session; all without it.
        spark: the session, if there is one.
        registers: whether the job needs the format. To register it for the first time, Spark
            starts a Python process that looks for further formats.

    Raises:
        RequirementError: PySpark, PyArrow or Java is missing or too old.
        KeyboardInterrupt: of Ctrl-C, whatever Spark made of it.
    """
    check_pyspark()
    from pyspark.sql import SparkSession

    with interrupts.kept_as_raised():
        if spark is None and SUBMITTED_VARIABLE in os.environ:
            spark = SparkSession.builder.appName(app_name).getOrCreate()
            interrupts.take_back()
        spark = spark or SparkSession.getActiveSession()
        if spark is not None:
            _prepare(spark, registers=registers)
            yield spark
            return
        spark = _started(app_name, cores, DRIVER_MEMORY, {})
        interrupts.take_back()
        try:
            _prepare(spark, registers=registers)
            yield spark
        finally:
            spark.stop()


def _prepare(spark: SparkSession, *, registers: bool) -> None:
    from pocketmq.spark import register

    if registers:
        register(spark)
    else:
        make_active(spark)
