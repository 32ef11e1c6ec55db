"""Spark ingest end to end: rows of 100 bytes into 16 queues with 2 cores, stored durably.

Starts a cluster of its own (one broker, in a process of its own), writes the rows with the data
source, checks that the queues hold exactly as many, and reads them back. The bar for writing is
150,000 rows/s::

    python bench/spark_ingest.py [--rows 2000000] [--bytes 100] [--queues 16] [--cores 2] [--runs 3]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from pocketmq.spark import local_session
from pocketmq.spark.jobs.progress import TopicGrowth

BAR_ROWS_PER_S = 150_000
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Cluster:
    """A cluster in a process of its own."""

    def __init__(self, directory: Path) -> None:
        command = [sys.executable, "-m", "pocketmq.cli.main", "up", "--data", str(directory)]
        self._process = subprocess.Popen(
            [*command, "--namesrv-port", "0", "--broker-port", "0"],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline().split()
        if not line or line[0] != "up":
            raise SystemExit(f"the cluster did not start: {' '.join(line)}")
        self.namesrv = next(w.partition("=")[2] for w in line if w.startswith("namesrv="))

    def cpu_s(self) -> float:
        """CPU seconds that it has taken so far."""
        stat = Path(f"/proc/{self._process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(stat[11]) + int(stat[12])) / TICKS_PER_S

    def close(self) -> None:
        """Stops it."""
        self._process.terminate()
        self._process.wait()


def frame(spark: Any, rows: int, size: int, cores: int) -> Any:
    words = ", ".join(f"cast(xxhash64(id, {i}) as binary)" for i in range(-(-size // 8)))
    return spark.range(0, rows, 1, 4 * cores).selectExpr(
        f"substring(concat({words}), 1, {size}) as value", "cast(id % 1000 as string) as keys"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--bytes", type=int, default=100)
    parser.add_argument("--queues", type=int, default=16)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pocketmq-bench-") as directory:
        cluster = Cluster(Path(directory))
        settings = {"spark.sql.ansi.enabled": "false"}  # numbers are cast to binary here
        spark = local_session(cores=given.cores, settings=settings)
        try:
            result = measure(spark, cluster, given)
        finally:
            spark.stop()
            cluster.close()
    print(json.dumps(result))
    return 0 if result["write_rows_per_s"] >= BAR_ROWS_PER_S else 1


def measure(spark: Any, cluster: Cluster, given: argparse.Namespace) -> dict[str, float]:
    options = {"namesrvAddr": cluster.namesrv, "createTopicQueues": str(given.queues)}

    def write(topic: str, rows: int) -> float:
        started = time.perf_counter()
        data = frame(spark, rows, given.bytes, given.cores)
        data.write.format("pocketmq").options(topic=topic, **options).mode("append").save()
        return time.perf_counter() - started

    def read(topic: str) -> float:
        started = time.perf_counter()
        source = spark.read.format("pocketmq").option("namesrvAddr", cluster.namesrv)
        source.option("subscribe", topic).load().write.format("noop").mode("append").save()
        return time.perf_counter() - started

    write("Warm", given.rows // 20)
    read("Warm")
    writes, reads, cpu = [], [], []
    for run in range(given.runs):
        topic = f"Bench{run}"
        before = cluster.cpu_s()
        writes.append(given.rows / write(topic, given.rows))
        cpu.append((cluster.cpu_s() - before) / given.rows * 1e6)
        stored = TopicGrowth(cluster.namesrv, topic).stored()
        if stored != given.rows:
            raise SystemExit(f"{stored} rows are stored, {given.rows} were written")
        reads.append(given.rows / read(topic))
        print(
            f"run {run}: write {writes[-1]:,.0f} rows/s ({cpu[-1]:.2f} s broker CPU per million), "
            f"read {reads[-1]:,.0f} rows/s",
            flush=True,
        )
    return {
        "rows": given.rows,
        "write_rows_per_s": round(statistics.median(writes)),
        "read_rows_per_s": round(statistics.median(reads)),
        "broker_cpu_s_per_million_rows_written": round(statistics.median(cpu), 3),
        "bar_write_rows_per_s": BAR_ROWS_PER_S,
    }


if __name__ == "__main__":
    sys.exit(main())
