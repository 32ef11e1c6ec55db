"""An archive against the retention of a real broker, which deletes while the archive is written."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from pocketmq.protocol.messages.message import Message, MessageQueue
from pocketmq.runtime.clock import SystemClock
from pocketmq.spark import ArchiveOptions, archive
from pocketmq.spark.jobs.files.ledger import LedgerFile
from pocketmq.spark.reading.offsets import Range
from pocketmq.testing import Cluster, LocalCluster

pytest.importorskip("pyspark")

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

TOPIC = "Expiring"
LARGE, SMALL = (MessageQueue(TOPIC, "broker-a", i) for i in range(2))
HOUR_MS = 3_600_000
BODY_SIZE = 10_000
BROKER: dict[str, Any] = {"segment_size": 64 * 1024, "file_reserved_time": 72}
SAVES_OF_SLICE = 3


def send(cluster: Cluster, *numbers: int) -> None:
    """Twelve messages that no sender can compress for each of the small queue."""
    bodies = random.Random(0)
    with cluster.producer() as producer:
        for number in numbers:
            producer.send(Message(TOPIC, f"small {number}"), queue=SMALL)
            for _ in range(12):
                producer.send(Message(TOPIC, bodies.randbytes(BODY_SIZE)), queue=LARGE)


def archived(spark: Any, directory: Path) -> list[tuple[int, int]]:
    rows = spark.read.parquet(str(directory)).select("queueId", "queueOffset").collect()
    return sorted((row.queueId, row.queueOffset) for row in rows)


@pytest.mark.whole_spark
def test_retention_that_deletes_while_the_archive_is_written(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "archive"
    start_ms = SystemClock().now_ms() - 60 * HOUR_MS
    with LocalCluster(topics={TOPIC: 2}, broker_settings=BROKER, start_ms=start_ms) as cluster:
        send(cluster, 0)
        cluster.clock.advance(hours=30)
        send(cluster, 1)
        options = ArchiveOptions(
            TOPIC, str(target), namesrv=cluster.namesrv, margin_ms=71 * HOUR_MS, slice_rows=7
        )
        save, saves = LedgerFile.save, []

        def least() -> int:
            with cluster.admin() as admin:
                stats = {s.queue: s.min_offset for s in admin.topic_stats(TOPIC)}
            return stats[LARGE]

        def hindered(self: LedgerFile, ledger: Any) -> None:
            save(self, ledger)
            saves.append(ledger)
            if len(saves) == 1 + SAVES_OF_SLICE + 1:  # the second slice begins
                cluster.clock.advance(hours=43)
                assert least() > 6
            if len(saves) == 1 + 2 * SAVES_OF_SLICE + 3:
                raise KeyboardInterrupt  # once it has found out and the third slice is begun

        monkeypatch.setattr(LedgerFile, "save", hindered)
        with pytest.raises(KeyboardInterrupt):
            archive(options, spark)
        monkeypatch.undo()
        before = archived(spark, target)
        found = archive(options, spark)
        assert found.lost == (Range(LARGE, 6, least()),), "told by the first run that ends"
        assert found.exit_code == 3
        assert f"{TOPIC}@broker-a:0 6 to {least()}" in str(found)
        kept = [*range(6), *range(least(), 24)]
        assert archived(spark, target) == [(0, i) for i in kept] + [(1, 0), (1, 1)]
        assert before
        assert set(before) < set(archived(spark, target))
        again = archive(options, spark)
        assert (again.ranges, again.lost, again.exit_code) == ((), (), 0)
