"""What the tests of streams on real Spark share."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pocketmq.spark.features import installed_features

STREAM_FEATURES = installed_features()
needs_limits = pytest.mark.skipif(
    not STREAM_FEATURES.has_limits,
    reason=f"PySpark {STREAM_FEATURES.version} does not bound what a batch of a stream reads",
)
needs_stream_writes = pytest.mark.skipif(
    not STREAM_FEATURES.has_arrow_writes,
    reason=f"PySpark {STREAM_FEATURES.version} does not write streams in Arrow batches",
)

STARTS_MAX = 20
NOT_STARTED = "Python worker failed to connect back"
"""Spark gives the Python of a source ten seconds to start, which is short on a loaded machine."""


def numbers(spark: Any, start: int, end: int) -> Any:
    """Rows whose values are numbers."""
    return spark.range(start, end).selectExpr("cast(id as string) value")


def source(spark: Any, namesrv: str, topic: str, **options: str) -> Any:
    """A topic as a stream, from its start."""
    given = {"namesrvAddr": namesrv, "subscribe": topic, "startingOffsets": "earliest"}
    return spark.readStream.format("pocketmq").options(**{**given, **options}).load()


def finished(writer: Any) -> Any:
    """Runs a query to its end; returns it."""
    from pyspark.errors import StreamingQueryException

    for attempt in range(STARTS_MAX):
        query = writer.trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        except StreamingQueryException as e:
            if NOT_STARTED not in str(e) or attempt == STARTS_MAX - 1:
                raise
        else:
            return query
    raise AssertionError


def to_files(rows: Any, directory: Path) -> Any:
    """A stream into files of a directory, with its checkpoint there."""
    place = rows.writeStream.format("parquet").option("path", str(directory / "rows"))
    return place.option("checkpointLocation", str(directory / "checkpoint"))


def to_topic(rows: Any, namesrv: str, topic: str, directory: Path, **options: str) -> Any:
    """A stream into a topic, with its checkpoint in a directory."""
    given = {"namesrvAddr": namesrv, "topic": topic, "createTopicQueues": "2", **options}
    place = rows.writeStream.format("pocketmq").options(**given)
    return place.option("checkpointLocation", str(directory / "checkpoint"))


def times(rows: Any) -> Counter[int]:
    """How many values are there how often."""
    found = rows.groupBy("value").count().groupBy("count").count().collect()
    return Counter({r[0]: r[1] for r in found})
