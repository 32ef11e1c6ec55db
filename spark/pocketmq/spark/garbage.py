"""Spares the modules of a Spark worker from the garbage collection that follows each task."""

from __future__ import annotations

import gc
import sys

from pyspark import TaskContext

_spared_modules = 0
"""How many modules this process had loaded when their objects were last excepted."""


def spare_modules() -> None:
    """Excepts the objects of the modules that are loaded from garbage collection.

    Spark's daemon collects the garbage of a worker after each task, before the worker takes the
    next one. PySpark, PyArrow and numpy make some 100,000 objects that stay: to look at them takes
    longer than to read a small queue. Called when a task begins, right after such a collection, so
    that no garbage is excepted. Does nothing outside a task, or if no module has come since.
    """
    global _spared_modules
    if TaskContext.get() is not None and len(sys.modules) != _spared_modules:
        gc.freeze()
        _spared_modules = len(sys.modules)
