"""Starts the JVM of a local session, and leaves out one warning of what it says."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import SparkConf

STANDARD_ERROR = 2

INCUBATOR_WARNING = b"WARNING: Using incubator modules"
"""Java says it of a module that Spark itself asks for; nobody can do anything about it."""


def start_context(conf: SparkConf) -> None:
    """Starts a Spark context whose JVM does not warn of Spark's use of incubator modules.

    What else the JVM writes to standard error goes there, line by line.

    Args:
        conf: of the context.
    """
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None:  # the JVM of a session that was stopped
        SparkContext.getOrCreate(conf)
        return
    source, sink = os.pipe()
    threading.Thread(target=_copy_errors, args=(source,), name="spark-errors", daemon=True).start()
    try:
        gateway = launch_gateway(conf, popen_kwargs={"stderr": sink})  # type: ignore[no-untyped-call]
    finally:
        os.close(sink)
    SparkContext(conf=conf, gateway=gateway)


def _copy_errors(source: int) -> None:
    """Copies the JVM's standard error to this process's until the JVM ends."""
    with open(source, "rb") as lines:
        for line in lines:
            if not line.startswith(INCUBATOR_WARNING):
                os.write(STANDARD_ERROR, line)
