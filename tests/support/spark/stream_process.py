"""A Spark driver with two queries on one topic, in a process of its own, to be killed.

::

    python -m crash.stream_process NAMESRV DIRECTORY [finish]

One query writes the topic to files, the other to a second topic, with marks. With ``finish`` they
end with what is there, a third one reads the second topic without its repeats, and what came of
all is printed: how many values there are how often.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pocketmq.spark import local_session

SOURCE, TARGET = "StreamSource", "StreamTarget"
BATCH_ROWS = 300
STARTS_MAX = 20
NOT_STARTED = "Python worker failed to connect back"
"""Spark gives the Python of a source ten seconds to start, which is short on a loaded machine."""


class Queries:
    """The queries of one run.

    Args:
        spark: the session.
        namesrv: where the topics are.
        directory: for checkpoints and files.
    """

    def __init__(self, spark: Any, namesrv: str, directory: Path) -> None:
        self._spark, self._namesrv, self._directory = spark, namesrv, directory

    def _read(self, topic: str, **options: str) -> Any:
        given = {"namesrvAddr": self._namesrv, "subscribe": topic, "startingOffsets": "earliest"}
        source = self._spark.readStream.format("pocketmq").options(**given, **options)
        return source.load().select("value")

    def to_files(self, topic: str, name: str, **options: str) -> Any:
        """A topic into files."""
        sink = self._read(topic, **options).writeStream.format("parquet")
        return self._at(sink.option("path", str(self._directory / name / "rows")), name)

    def to_topic(self, name: str) -> Any:
        """The source into the target."""
        rows = self._read(SOURCE, maxOffsetsPerTrigger=str(BATCH_ROWS))
        given = {"namesrvAddr": self._namesrv, "topic": TARGET, "markRows": "true"}
        return self._at(rows.writeStream.format("pocketmq").options(**given), name)

    def _at(self, sink: Any, name: str) -> Any:
        return sink.option("checkpointLocation", str(self._directory / name / "checkpoint"))

    def both(self) -> list[Any]:
        """The two queries on the source."""
        limit = {"maxOffsetsPerTrigger": str(BATCH_ROWS)}
        return [self.to_files(SOURCE, "files", **limit), self.to_topic("topic")]

    def _files(self, name: str) -> Any:
        return self._spark.read.parquet(str(self._directory / name / "rows"))

    def _topic(self, **options: str) -> Any:
        given = {"namesrvAddr": self._namesrv, "subscribe": TARGET, **options}
        return self._spark.read.format("pocketmq").options(**given).load()

    def finish(self) -> dict[str, dict[int, int]]:
        """Reads all that is left; returns how many values there are how often."""
        for sink in self.both():
            to_the_end(sink)
        to_the_end(self.to_files(TARGET, "copy", dropRepeats="true"))
        return {
            "files": times(self._files("files")),
            "copy": times(self._files("copy")),
            "target": times(self._topic(dropRepeats="true")),
            "all": times(self._topic()),
        }


def start(sink: Any) -> None:
    """Starts a query; returns when its source is there, so that one starts after the other."""
    from pyspark.errors import StreamingQueryException

    for attempt in range(STARTS_MAX):
        query = sink.start()
        try:
            while query.status["message"] == "Initializing sources":
                query.awaitTermination(0.2)
            if (failed := query.exception()) is not None:  # since it was last waited for
                raise failed
        except StreamingQueryException as e:
            if NOT_STARTED not in str(e) or attempt == STARTS_MAX - 1:
                raise
        else:
            return


def to_the_end(sink: Any) -> None:
    """Runs a query until it has read what is there."""
    from pyspark.errors import StreamingQueryException

    for attempt in range(STARTS_MAX):
        try:
            sink.trigger(availableNow=True).start().awaitTermination()
        except StreamingQueryException as e:
            if NOT_STARTED not in str(e) or attempt == STARTS_MAX - 1:
                raise
        else:
            return


def times(rows: Any) -> dict[int, int]:
    """How many values there are how often."""
    found = rows.groupBy("value").count().groupBy("count").count().collect()
    return {r[0]: r[1] for r in found}


def main(namesrv: str, directory: str, *finish: str) -> None:
    """Runs the queries."""
    spark = local_session(cores=2)
    queries = Queries(spark, namesrv, Path(directory))
    if finish:
        sys.stdout.write(f"found {json.dumps(queries.finish())}\n")
        spark.stop()
        return
    for sink in queries.both():
        start(sink)
    spark.streams.awaitAnyTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
