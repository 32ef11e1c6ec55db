"""Runs the broker's hot paths under valgrind, which counts their instructions: see `guard.py`.

    valgrind --tool=cachegrind --log-file=DIRECTORY/%p ... python bench/guarded_paths.py

One broker, without sockets. It is warmed up by each path, then a fork of the process runs a path so
many times and ends: what valgrind counts for two such forks differs by those runs alone. Prints
a line of JSON for each fork: path, messages, process id. With ``--scraped`` the broker counts what
it tells Prometheus, too.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import msgspec
from stages import BODY, HOST, PROPERTIES, TOGETHER, Sink, send_request

from pocketmq.broker import Broker, BrokerConfig
from pocketmq.protocol.messages.batch import encode_batch
from pocketmq.protocol.messages.records import encode_record
from pocketmq.protocol.requests.pulling import (
    PULL_SUBSCRIPTION,
    BulkPullRequest,
    PullMessageRequest,
)
from pocketmq.protocol.requests.sending import BulkAppendRequest, SendBatchRequest
from pocketmq.protocol.wire import frames
from pocketmq.protocol.wire.command import Command
from pocketmq.protocol.wire.header import RequestHeader
from pocketmq.transport.connection import Connection, ConnectionOptions

BULK = 256
"""Records of a bulk request."""
WARM_ROUNDS = 10
"""So few that no pull is one of a group far behind, which may have to wait."""

PATIENCE_MS = 600_000
"""Under valgrind all takes fifty times as long: no send is too late for that, and no checkpoint
comes between, which decides whether pulls read index entries from memory or from the file."""
BULK_QUEUE = 5


class AnswerSink(Sink):
    """Takes the place of a socket, and keeps what was written last."""

    answer = b""

    def write(self, data: bytes) -> None:
        self.answer = data

    def writelines(self, parts: list[bytes]) -> None:
        self.answer = b"".join(parts)


def frame(header: RequestHeader, body: bytes = b"") -> bytes:
    return frames.encode(Command(header.code, opaque=1, header=header, body=body))


def paths() -> Iterator[tuple[str, list[bytes], int, int]]:
    """Yields (path, the reads of one round, messages of a round, rounds to count)."""
    sends = [frame(send_request(n % 4), BODY) for n in range(TOGETHER)]
    yield "send", sends, TOGETHER, 16
    yield "sends-together", [b"".join(sends)], TOGETHER, 24
    batch = SendBatchRequest(**(msgspec.structs.asdict(send_request(0)) | {"batch": True}))
    entries = encode_batch([(0, BODY, PROPERTIES.encode())] * TOGETHER)
    yield "batch", [frame(batch, entries)], TOGETHER, 48
    asked: dict[str, Any] = {
        "consumer_group": "g", "topic": "Stages", "queue_offset": 0,
        "sys_flag": PULL_SUBSCRIPTION, "subscription": "*",
    }  # fmt: skip
    yield "pull", [frame(PullMessageRequest(queue_id=0, **asked))], 1, 256
    record = encode_record(
        topic=b"Stages", queue_id=BULK_QUEUE, flag=0, queue_offset=0, physical_offset=0, sys_flag=0,
        born_timestamp=1, born_host=HOST, store_timestamp=0, store_host=bytes(8), reconsume_times=0,
        prepared_transaction_offset=0, body=BODY, properties=PROPERTIES.encode(),
    )  # fmt: skip
    sizes = len(record).to_bytes(4, "big") * BULK
    bulk = BulkAppendRequest(
        producer_group="g", topic="Stages", queue_id=BULK_QUEUE, count=BULK, sizes=True
    )
    yield "bulk-append", [frame(bulk, record * BULK + sizes)], BULK, 24
    pull = BulkPullRequest(queue_id=BULK_QUEUE, max_msg_nums=BULK, with_sizes=True, **asked)
    yield "bulk-pull", [frame(pull)], BULK, 128


def check(path: str, answer: bytes) -> None:
    """Ends the process unless an answer says success: else a refusal would be counted."""
    parser = frames.FrameParser()
    parser.feed(answer)
    command = parser.next_command()
    if command is None or command.code:
        sys.exit(f"{path}: the broker does not do it: {command}")


def count(
    path: str, connection: Connection, sink: AnswerSink, reads: list[bytes], rounds: int, size: int
) -> None:
    """Runs a path in a fork, so that all counts begin at the same state."""
    process_id = os.fork()
    if not process_id:
        for _ in range(rounds):
            for read in reads:
                sink.answer = b""
                connection.data_received(read)
                if not sink.answer:
                    os._exit(1)
        os._exit(0)
    if os.waitpid(process_id, 0)[1]:
        sys.exit(f"{path}: the broker does not answer it at once, so it cannot be counted")
    print(json.dumps([path, rounds * size, process_id]), flush=True)


async def run(directory: str, *, is_scraped: bool) -> None:
    scraped: dict[str, Any] = {"metrics_exporter_type": "PROM", "metrics_prom_exporter_port": 0}
    config = BrokerConfig(
        listen_port=0, bind_address="127.0.0.1", store_path_root_dir=directory,
        wait_time_mills_in_send_queue=PATIENCE_MS, flush_interval_commit_log=PATIENCE_MS,
        **(scraped if is_scraped else {}),
    )  # fmt: skip
    async with Broker(config) as broker:
        sink = AnswerSink()
        options = ConnectionOptions(read_events=broker.store.committer)
        if is_scraped:
            from pocketmq.transport.server import connection_types

            plain, _ = connection_types(broker.meter)
            connection = plain(broker.clock, broker.handlers, options)
        else:
            connection = Connection(broker.clock, broker.handlers, options)
        connection.connection_made(sink)  # type: ignore[arg-type]
        guarded = list(paths())
        for path, reads, _, _ in guarded:
            sink.answer = b""
            for read in reads:
                connection.data_received(read)
            while not sink.answer:  # noqa: ASYNC110 - a first message, or one that brings numpy in
                await asyncio.sleep(0.01)
            for _ in range(WARM_ROUNDS):
                for read in reads:
                    connection.data_received(read)
            check(path, sink.answer)
        gc.collect()
        gc.disable()
        for path, reads, size, rounds in guarded:
            count(path, connection, sink, reads, rounds, size)
            count(path, connection, sink, reads, 3 * rounds, size)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="pocketmq-bench-") as directory:
        asyncio.run(run(directory, is_scraped="--scraped" in sys.argv))


if __name__ == "__main__":
    main()
