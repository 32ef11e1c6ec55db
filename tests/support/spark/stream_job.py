"""A job of streams: a topic into another with marks, and that one without repeats into files.

It prints, as JSON, how many rows each batch of the first query had, and how many values are in the
files how often.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

STARTS_MAX = 20
NOT_STARTED = "Python worker failed to connect back"
"""Spark gives the Python of a source ten seconds to start, which is short on a loaded machine."""


def finished(sink: Any) -> Any:
    """Runs a query until it has read what is there; returns it."""
    for attempt in range(STARTS_MAX):
        query = sink.trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        except StreamingQueryException as e:
            if NOT_STARTED not in str(e) or attempt == STARTS_MAX - 1:
                raise
        else:
            return query
    raise AssertionError


def main(namesrv: str, source: str, target: str, directory: str) -> None:
    """Runs the two queries."""
    from pocketmq.spark import register

    spark = SparkSession.builder.getOrCreate()
    register(spark)

    def rows(topic: str, **options: str) -> Any:
        given = {"namesrvAddr": namesrv, "subscribe": topic, "startingOffsets": "earliest"}
        return spark.readStream.format("pocketmq").options(**given, **options).load()

    copied = rows(source, maxOffsetsPerTrigger="600", consumerGroup="stream-job").select("value")
    sink = copied.writeStream.format("pocketmq")
    sink = sink.options(namesrvAddr=namesrv, topic=target, markRows="true")
    query = finished(sink.option("checkpointLocation", f"{directory}/copied"))
    batches = [p["numInputRows"] for p in query.recentProgress if p["numInputRows"]]

    files = rows(target, dropRepeats="true").select("value").writeStream.format("parquet")
    files = files.option("path", f"{directory}/rows")
    finished(files.option("checkpointLocation", f"{directory}/files"))
    found = spark.read.parquet(f"{directory}/rows").groupBy("value").count()
    times = {row[0]: row[1] for row in found.groupBy("count").count().collect()}
    sys.stdout.write(json.dumps({"batches": batches, "times": times}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
