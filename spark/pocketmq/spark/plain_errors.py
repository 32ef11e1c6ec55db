"""Lets Spark show an error of this package as one line, not below a page of Python's traceback."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from pocketmq.protocol.errors import PocketMQError

HIDE_VARIABLE = "SPARK_HIDE_TRACEBACK"
"""Spark's own: its Python processes look for it when they hand an error to the JVM."""

SHOW_VARIABLE = "POCKETMQ_TRACEBACK"
"""Set to anything, it keeps the tracebacks."""


@contextmanager
def plain_errors() -> Iterator[None]:
    """Raises errors of this package so that Spark leaves their tracebacks out.

    They say all that a user can act upon. Other errors, those of functions of users among them,
    keep their tracebacks.
    """
    try:
        yield
    except PocketMQError:
        # To be told of the error is the last that happens in a process of Spark.
        if _is_of_spark() and not os.environ.get(SHOW_VARIABLE):
            os.environ.setdefault(HIDE_VARIABLE, "1")
        raise


def _is_of_spark() -> bool:
    """Whether Spark started this process, to plan or to run a task."""
    main = getattr(sys.modules["__main__"], "__spec__", None)
    return main is not None and main.name.startswith("pyspark.")
