"""What memory a Spark task needs, whatever the size of its partition.

    python bench/spark_memory.py [--megabytes 5000] [--limit 512]

Writes so many MB of messages into one queue and reads them again, as the Python worker of a task
does, in a process that the system allows only so many MiB of memory of its own (RLIMIT_DATA); each
row is counted. Prints a line of JSON with the most that each of both held.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import re
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from own_cluster import cluster
from pyspark.sql.types import BinaryType, StructField, StructType

from pocketmq.spark.options import read_options
from pocketmq.spark.reading.reader import MessageReader
from pocketmq.spark.source import MessageSource

MEBIBYTE = 1024 * 1024
BODY_SIZE = 1000
BATCH_ROWS = 10_000
TOPIC = "Memory"


def batches(count: int) -> Iterator[Any]:
    """Record batches as Spark hands them to a writing task."""
    chance = np.random.default_rng(7)
    ends = np.arange(0, (BATCH_ROWS + 1) * BODY_SIZE, BODY_SIZE, dtype=np.int32)
    for _ in range(count):
        data = chance.bytes(BATCH_ROWS * BODY_SIZE)
        bodies = pa.Array.from_buffers(
            pa.binary(), BATCH_ROWS, [None, pa.py_buffer(ends), pa.py_buffer(data)]
        )
        yield pa.RecordBatch.from_arrays([bodies], ["value"])


def write(namesrv: str, count: int) -> int:
    """Writes as a task does; returns how many rows were stored."""
    options = {"namesrvAddr": namesrv, "topic": TOPIC, "createTopicQueues": "1"}
    schema = StructType([StructField("value", BinaryType())])
    writer: Any = MessageSource(options=options).writer(schema, overwrite=False)
    return sum(writer.write(batches(count)).rows_by_queue.values())


def read(namesrv: str, count: int) -> int:
    """Reads as a task does; returns how many rows came."""
    reader = MessageReader(read_options({"namesrvAddr": namesrv, "subscribe": TOPIC}))
    (partition,) = reader.partitions()
    return sum(batch.num_rows for batch in reader.read(partition))


def limited(task: Callable[[str, int], int], namesrv: str, count: int, limit: int) -> int:
    """Runs a task in a process of its own that may hold so many bytes; the most that it held."""
    context = multiprocessing.get_context("spawn")
    results = context.SimpleQueue()
    process = context.Process(target=_run, args=(task, namesrv, count, limit, results))
    process.start()
    process.join()
    if process.exitcode:
        raise SystemExit(f"{task.__name__} failed with {limit // MEBIBYTE} MiB")
    rows, held = results.get()
    if rows != count * BATCH_ROWS:
        raise SystemExit(f"{task.__name__}: {rows:,} rows, not {count * BATCH_ROWS:,}")
    return int(held)


def _run(
    task: Callable[[str, int], int], namesrv: str, count: int, limit: int, results: Any
) -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    rows = task(namesrv, count)
    found = re.search(r"^VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.M)
    assert found is not None
    results.put((rows, int(found[1]) * 1024))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=5000)
    parser.add_argument("--limit", type=int, default=512, help="MiB")
    given = parser.parse_args()
    count = -(-given.megabytes * 1_000_000 // (BATCH_ROWS * BODY_SIZE))
    figures = {"megabytes": given.megabytes, "limit_mib": given.limit}
    with cluster() as own:
        for task in (write, read):
            held = limited(task, own.namesrv, count, given.limit * MEBIBYTE)
            figures[f"{task.__name__}_resident_mib"] = held // MEBIBYTE
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
