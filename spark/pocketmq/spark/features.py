"""Finds out what the installed PySpark lets reads and writes do.

PySpark 4.0 has sources in Python that read and write Arrow batches, and streams. 4.1 and newer tell
a source the conditions of a query, if the session allows it, and write streams in Arrow batches.
4.2 bounds what a batch of a stream reads, ends with Trigger.AvailableNow at what was there at its
start, and reports how far the topic reaches.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, NamedTuple

import pyspark
from pyspark.sql import datasource

from pocketmq.spark.errors import RequirementError
from pocketmq.spark.streaming.options import StreamOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PUSHDOWN_SETTING = "spark.sql.python.filterPushdown.enabled"
"""Off by default; where it is off, Spark refuses sources that could take conditions."""

LIMITS_VERSION = "4.2"
ARROW_WRITES_VERSION = "4.1"
_LIMITS_MODULE = "pyspark.sql.streaming.datasource"


class StreamFeatures(NamedTuple):
    """What a PySpark lets a stream do.

    Attributes:
        version: of PySpark.
        has_limits: Spark tells a stream where it stands and how much to read.
        has_arrow_writes: a stream's tasks get record batches.
    """

    version: str
    has_limits: bool
    has_arrow_writes: bool

    def check_read(self, options: StreamOptions) -> None:
        """Checks that a stream can be read with some options.

        Raises:
            RequirementError: an option needs a newer PySpark.
        """
        if self.has_limits:
            return
        wanted = {
            "maxOffsetsPerTrigger": options.max_offsets_per_trigger,
            "minOffsetsPerTrigger": options.min_offsets_per_trigger,
            "dropRepeats": options.drop_repeats or None,
        }
        for name, value in wanted.items():
            if value is not None:
                raise RequirementError(
                    f"PySpark {self.version} does not tell a source in Python where its batches "
                    f"begin, which the option {name!r} needs",
                    f"install PySpark {LIMITS_VERSION} or newer, or leave the option out",
                )

    def check_write(self) -> None:
        """Checks that a stream can be written.

        Raises:
            RequirementError: this PySpark is too old.
        """
        if not self.has_arrow_writes:
            raise RequirementError(
                f"PySpark {self.version} does not give a sink in Python its rows in Arrow batches",
                f"install PySpark {ARROW_WRITES_VERSION} or newer, or write each batch with "
                f"foreachBatch and rows.write.format('pocketmq')",
            )


def installed_features() -> StreamFeatures:
    """Finds out what the installed PySpark has, by its modules, not by its version."""
    return StreamFeatures(
        pyspark.__version__,
        importlib.util.find_spec(_LIMITS_MODULE) is not None,
        hasattr(datasource, "DataSourceStreamArrowWriter"),
    )


def has_pushdown() -> bool:
    """Whether the installed PySpark tells a source the conditions of a query."""
    return hasattr(datasource.DataSourceReader, "pushFilters")


def allow_pushdown(spark: SparkSession) -> bool:
    """Lets Spark push conditions in a session; returns whether the installed PySpark can."""
    if has_pushdown():
        spark.conf.set(PUSHDOWN_SETTING, "true")
    return has_pushdown()
