"""What a replay sent before it was cut off counts when the next run has committed it; no JVM."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from support.spark.parts import read_rows, writer_of

from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.process import run
from pocketmq.spark.jobs.files.ledger import OpenSlice
from pocketmq.spark.jobs.replaying.sending import ReplaySending, SentMessage

pytest.importorskip("pyspark.sql.datasource")

pytestmark = pytest.mark.spark

TOPIC = "Recovered"


def numbered(*numbers: int) -> Any:
    return pa.record_batch({"value": pa.array([str(i) for i in numbers], pa.string())})


def test_each_message_counts_once_whenever_a_run_was_cut_off(spark_namesrv: str) -> None:
    namesrv = spark_namesrv
    options = {"topic": TOPIC, "createTopicQueues": "2", "writerId": "id-1-spread"}
    writer = writer_of(namesrv, numbered().schema, **options)
    nowhere: Any = None
    sending = ReplaySending(nowhere, {"namesrvAddr": namesrv}, "id", 0, SystemClock())

    def counted() -> list[int]:
        return sorted(int(row["value"]) for row in read_rows(namesrv, TOPIC, dropRepeats="true"))

    def recover(attempt: int) -> None:
        sent = [
            SentMessage(
                row["value"].decode(),
                row["properties"]["WRITER_ID"],
                MessageQueue(TOPIC, row["brokerName"], row["queueId"]),
                row["queueOffset"],
            )
            for row in read_rows(namesrv, TOPIC)
        ]
        run(sending.let_count(sent, OpenSlice(number=1, ranges={}, attempts=attempt)))

    # A task that ran twice, and no commit.
    for numbers in (range(5), range(8)):
        writer.write(iter([numbered(*numbers)]))
    assert counted() == []
    recover(2)
    assert counted() == list(range(8))
    # The second run is cut off, too, when it has sent some of the rest.
    writer.write(iter([numbered(8, 9)]))
    recover(3)
    assert counted() == list(range(10))
    recover(4)
    assert counted() == list(range(10))
    # The third run sends and commits what is left, and is cut off before it books that.
    writer.commit([writer.write(iter([numbered(10, 11)]))])
    assert counted() == list(range(12))
    recover(5)
    assert counted() == list(range(12))
