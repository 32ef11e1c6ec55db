"""Asks a broker what only PocketMQ's peers ask: bulk requests, on a connection that has greeted.

    python bulk.py NAMESRV TOPIC

Any release runs it. It prints, as JSON, whether the peer was known for PocketMQ, and the bodies
that a bulk pull brought of those that a bulk append had stored.
"""

from __future__ import annotations

import asyncio
import json
import sys
from importlib import import_module
from typing import Any

from pocketmq.client import Admin, ClientInstance
from pocketmq.protocol.requests.pulling import PULL_SUBSCRIPTION, BulkPullRequest
from pocketmq.protocol.requests.sending import BulkAppendRequest

COUNT = 50
GROUP = "bulk_readers"
TIMEOUT_MS = 30_000


def records_module() -> Any:
    """The module of stored records, where this release has it."""
    try:
        return import_module("pocketmq.protocol.messages.records")
    except ModuleNotFoundError:
        return import_module("pocketmq.protocol.records")


async def main(namesrv: str, topic: str) -> dict[str, Any]:
    """Appends and pulls; returns what is printed."""
    records = records_module()
    frame = b"".join(
        records.encode_record(
            topic=topic.encode(), queue_id=0, flag=0, queue_offset=0, physical_offset=0,
            sys_flag=0, born_timestamp=1_700_000_000_000, born_host=bytes(8), store_timestamp=0,
            store_host=bytes(8), reconsume_times=0, prepared_transaction_offset=0,
            body=b"bulk %d" % number, properties=b"",
        )
        for number in range(COUNT)
    )  # fmt: skip
    async with Admin(namesrv) as admin, ClientInstance(namesrv) as instance:
        await admin.create_topic(topic, 1)
        address = (await admin.brokers())[0].address
        append = BulkAppendRequest(producer_group="bulk", topic=topic, queue_id=0, count=COUNT)
        await instance.pool.ask(address, append, TIMEOUT_MS, frame)
        pull = BulkPullRequest(
            consumer_group=GROUP, topic=topic, queue_id=0, queue_offset=0, max_msg_nums=COUNT,
            sys_flag=PULL_SUBSCRIPTION, subscription="*", max_msg_bytes=1024 * 1024,
        )  # fmt: skip
        answer = await instance.pool.ask(address, pull, TIMEOUT_MS)
        connection = await instance.pool.get(address)
        found = [m.body.decode() for m in records.decode_records(answer.body)]
        return {"peer_is_pocketmq": connection.peer_is_pocketmq, "bodies": found}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asyncio.run(main(*sys.argv[1:]))))
