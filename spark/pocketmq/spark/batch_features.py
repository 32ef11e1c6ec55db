"""What the installed PySpark lets a batch read and write do, found out in one place.

PySpark 4.0 has sources in Python that read and write Arrow batches; 4.1 and newer tell a source the
conditions of a query, if the session allows it. `stream_features` is the same for streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import datasource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PUSHDOWN_SETTING = "spark.sql.python.filterPushdown.enabled"
"""Off by default; where it is off, Spark refuses sources that could take conditions."""


def has_pushdown() -> bool:
    """Whether this PySpark tells a source the conditions of a query."""
    return hasattr(datasource.DataSourceReader, "pushFilters")


def allow_pushdown(spark: SparkSession) -> bool:
    """Switches it on in a session, if this PySpark has it.

    Returns:
        Whether it is on.
    """
    if not has_pushdown():
        return False
    spark.conf.set(PUSHDOWN_SETTING, "true")
    return True
