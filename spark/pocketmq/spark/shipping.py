"""Lets the Python process that plans the batches of a stream find this package."""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DEPTH = 2
"""Folders of an archive above this file."""


def show_to_planners(spark: SparkSession) -> None:
    """Puts this package on PYTHONPATH if it came as a zip, by spark-submit's ``--py-files``.

    Spark starts the Python that plans batches beside the driver. Up to 4.3 that one looks for such
    files in a folder ``streaming_job``, where Spark puts none; but PYTHONPATH reaches it.
    """
    context = getattr(spark, "_sc", None)  # a Spark Connect session has none
    archive = archive_of(__file__)
    if context is not None and archive is not None:
        add_to_path(context.environment, archive)


def archive_of(module_file: str) -> Path | None:
    """Finds the zip that holds a module, by the name of its file; None if it lies in a folder."""
    archive = Path(module_file).parents[_DEPTH]
    return archive if archive.is_file() else None


def add_to_path(environment: MutableMapping[str, str], archive: Path) -> None:
    """Puts a zip at the front of PYTHONPATH, once."""
    entries = environment.get("PYTHONPATH", "").split(os.pathsep)
    if str(archive) not in entries:
        environment["PYTHONPATH"] = os.pathsep.join([str(archive), *filter(None, entries)])
