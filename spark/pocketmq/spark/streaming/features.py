"""What the installed PySpark lets a stream do, found out in one place.

PySpark 4.0 has streams, 4.1 writes them in Arrow batches, and 4.2 bounds what a batch reads, ends
with Trigger.AvailableNow at what was there at its start, and reports how far the topic reaches.
"""

from __future__ import annotations

import importlib.util
from typing import NamedTuple

import pyspark
from pyspark.sql import datasource

from pocketmq.spark.errors import RequirementError
from pocketmq.spark.streaming.options import StreamOptions

LIMITS_VERSION = "4.2"
ARROW_WRITES_VERSION = "4.1"
_LIMITS_MODULE = "pyspark.sql.streaming.datasource"


class StreamFeatures(NamedTuple):
    """What there is.

    Attributes:
        version: of PySpark.
        has_limits: a stream is told where it stands and how much to read.
        has_arrow_writes: a stream's tasks get record batches.
    """

    version: str
    has_limits: bool
    has_arrow_writes: bool

    def check_read(self, options: StreamOptions) -> None:
        """Makes sure that a stream can be read as it is wanted.

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
        """Makes sure that a stream can be written.

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
    """What this PySpark has: found by what is there, not by its number."""
    return StreamFeatures(
        pyspark.__version__,
        importlib.util.find_spec(_LIMITS_MODULE) is not None,
        hasattr(datasource, "DataSourceStreamArrowWriter"),
    )
