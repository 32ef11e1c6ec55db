"""Spark jobs on topics: ``from pocketmq.spark import register, local_session``.

Importing this package needs neither PySpark nor Java; using it does::

    spark = local_session()          # or any SparkSession of PySpark 4, then register(spark)
    rows.write.format("pocketmq").option("topic", "Orders").mode("append").save()
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from pocketmq.spark.errors import (
    DataLossError,
    JobError,
    MissingTopicError,
    OptionError,
    RequirementError,
    RowError,
    SchemaError,
)
from pocketmq.spark.requirements import check_pyspark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pocketmq.spark.jobs.archive import ArchiveOptions, archive
    from pocketmq.spark.jobs.export import ExportOptions, export
    from pocketmq.spark.jobs.ingest import IngestOptions, ingest
    from pocketmq.spark.jobs.replay import ReplayOptions, replay
    from pocketmq.spark.jobs.reports import IngestReport, RangeReport, ReplayReport
    from pocketmq.spark.schemas.bodies import (
        BodySchema,
        decoded,
        encoded,
        reading_schema,
        writing_schema,
    )
    from pocketmq.spark.session import local_session

__all__ = [
    "ArchiveOptions",
    "BodySchema",
    "DataLossError",
    "ExportOptions",
    "IngestOptions",
    "IngestReport",
    "JobError",
    "MissingTopicError",
    "OptionError",
    "RangeReport",
    "ReplayOptions",
    "ReplayReport",
    "RequirementError",
    "RowError",
    "SchemaError",
    "archive",
    "decoded",
    "encoded",
    "export",
    "ingest",
    "local_session",
    "reading_schema",
    "register",
    "replay",
    "writing_schema",
]

_OF_DRIVERS = {
    "ArchiveOptions": "jobs.archive",
    "archive": "jobs.archive",
    "ExportOptions": "jobs.export",
    "export": "jobs.export",
    "IngestOptions": "jobs.ingest",
    "IngestReport": "jobs.reports",
    "ingest": "jobs.ingest",
    "ReplayOptions": "jobs.replay",
    "replay": "jobs.replay",
    "RangeReport": "jobs.reports",
    "ReplayReport": "jobs.reports",
    "local_session": "session",
    "BodySchema": "schemas.bodies",
    "decoded": "schemas.bodies",
    "encoded": "schemas.bodies",
    "reading_schema": "schemas.bodies",
    "writing_schema": "schemas.bodies",
}
"""Modules that are loaded when asked for: Spark imports this package for each step of each query,
in processes that only read or write."""


def __getattr__(name: str) -> object:
    if name not in _OF_DRIVERS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_OF_DRIVERS[name]}"), name)


def register(spark: SparkSession, *, push_filters: bool = False) -> None:
    """Makes the format ``pocketmq`` known to a session, and the session active in this thread.

    Spark looks for formats in the active session only, and a thread other than the one that made
    the session has none: call this for each session, in each thread that uses the format. It may be
    called again.

    Args:
        spark: the session.
        push_filters: let conditions of a query make a read smaller, where PySpark has that (4.1).
            It switches on ``spark.sql.python.filterPushdown.enabled`` in the session. Only for
            sessions where each ``load()`` serves one query with one read of it: Spark up to 4.3
            keeps what the conditions left for all that is made of the same ``load()``, so another
            query of it, a union or a join would lack rows.

    Raises:
        RequirementError: PySpark or PyArrow is missing or too old.
    """
    check_pyspark()
    from pocketmq.spark.features import allow_pushdown
    from pocketmq.spark.session import make_active
    from pocketmq.spark.shipping import show_to_planners
    from pocketmq.spark.source import MessageSource, PushingSource

    show_to_planners(spark)
    make_active(spark)  # first: Spark looks in the active session whether the name is taken
    spark.dataSource.register(
        PushingSource if push_filters and allow_pushdown(spark) else MessageSource
    )
