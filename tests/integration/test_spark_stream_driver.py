"""The driver of a stream on real brokers, without Spark: queues that come, go, and are away."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest

from pocketmq.client import Message
from pocketmq.client.errors import BrokerDownError
from pocketmq.client.instance.instance import ClientInstance
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.spark.errors import (
    ClosedQueueError,
    DataLossError,
    MissingTopicError,
    NewTopicError,
    OptionError,
)
from pocketmq.spark.marked.commits import OffsetRanges, commit_brokers, publish, writer_of
from pocketmq.spark.options import COMMIT_TOPIC
from pocketmq.spark.reading.offsets import Range
from pocketmq.spark.rows.marks import WRITER_ID, WRITER_SEQUENCE
from pocketmq.spark.streaming.driver import StreamDriver, StreamTask
from pocketmq.spark.streaming.offsets import Position
from pocketmq.spark.streaming.options import stream_options
from pocketmq.testing import AsyncCluster, LocalCluster

pa = pytest.importorskip("pyarrow")

GROUP = "stream"


@asynccontextmanager
async def driver(cluster: AsyncCluster, **options: str) -> AsyncIterator[StreamDriver]:
    given = {"namesrvAddr": cluster.namesrv, "subscribe": "T", "startingOffsets": "earliest"}
    async with ClientInstance(cluster.namesrv) as instance:
        yield StreamDriver(instance, stream_options({**given, **options}))


async def send(
    cluster: AsyncCluster, count: int, queue_id: int = 0, broker: str = "broker-a"
) -> None:
    queue = MessageQueue("T", broker, queue_id)
    async with cluster.producer() as producer:
        for _ in range(count):
            await producer.send(Message("T", b"x" * 1000), queue=queue)


def queue(queue_id: int, broker: str = "broker-a") -> MessageQueue:
    return MessageQueue("T", broker, queue_id)


async def ranges(stream: StreamDriver, start: Position, end: Position) -> list[Range]:
    return [task.wanted for task in await stream.tasks(start, end)]


async def lags(cluster: AsyncCluster) -> dict[MessageQueue, int]:
    async with cluster.admin() as admin:
        return {lag.queue: lag.lag for lag in await admin.consume_stats(GROUP, "T")}


async def test_batches_follow_each_other_to_the_end() -> None:
    async with LocalCluster(topics={"T": 2}) as cluster:
        await send(cluster, 30)
        await send(cluster, 10, 1)
        async with driver(cluster, maxOffsetsPerTrigger="25") as stream:
            start = await stream.first_position()
            seen: list[list[Range]] = []
            while (end := await stream.next_position(start, is_limited=True)) is not start:
                seen.append(await ranges(stream, start, end))
                start = Position.decode(end.encode())
            assert seen == [
                [Range(queue(0), 0, 19), Range(queue(1), 0, 6)],
                [Range(queue(0), 19, 30), Range(queue(1), 6, 10)],
            ]
            assert stream.latest == Position({queue(0): 30, queue(1): 10}, {})


async def test_where_a_query_begins() -> None:
    async with LocalCluster(topics={"T": 2}) as cluster:
        await send(cluster, 3)
        async with driver(cluster, startingOffsets="latest") as stream:
            assert (await stream.first_position()).offsets == {queue(0): 3, queue(1): 0}
        table = '{"T": {"broker-a": {"0": 2}}}'
        async with driver(cluster, startingOffsets=table) as stream:
            assert (await stream.first_position()).offsets == {queue(0): 2, queue(1): 0}
        table = '{"T": {"broker-a": {"0": 9}}}'
        async with driver(cluster, startingOffsets=table) as stream:
            with pytest.raises(DataLossError, match=r"offsets 9 to 3 .* holds 0 to 3"):
                await stream.first_position()
        table = '{"T": {"broker-a": {"7": 2}}}'
        async with driver(cluster, startingOffsets=table) as stream:
            with pytest.raises(OptionError, match="names queue 7"):
                await stream.first_position()
        async with driver(cluster, subscribe="Unknown") as stream:
            with pytest.raises(MissingTopicError, match="topic Unknown does not exist"):
                await stream.first_position()


async def test_a_first_batch_that_is_run_again_reads_the_same() -> None:
    # Between the two runs more came: a query that begins at the latest offset would skip it all.
    async with LocalCluster(topics={"T": 1}) as cluster:
        await send(cluster, 3)
        async with driver(cluster, startingOffsets="latest") as stream:
            start = await stream.first_position()
            await send(cluster, 4)
            end = await stream.next_position(start, is_limited=True)
        await send(cluster, 5)
        async with driver(cluster, startingOffsets="latest") as stream:
            again = await stream.first_position()
            assert again.offsets == {queue(0): 12}
            assert await ranges(stream, again, end) == [Range(queue(0), 3, 7)]
            following = await stream.next_position(end, is_limited=True)
            assert await ranges(stream, end, following) == [Range(queue(0), 7, 12)]


async def test_new_queues_are_read_from_their_start() -> None:
    async with LocalCluster(topics={"T": 1}) as cluster, driver(cluster) as stream:
        start = await stream.first_position()
        async with cluster.admin() as admin:
            await admin.create_topic("T", queues=3)
        await send(cluster, 2, 2)
        end = await stream.next_position(start, is_limited=True)
        assert await ranges(stream, start, end) == [Range(queue(2), 0, 2)]
        assert await stream.next_position(end, is_limited=True) is end


async def test_a_trigger_that_ends_reads_what_was_there() -> None:
    async with LocalCluster(topics={"T": 1}) as cluster, driver(cluster) as stream:
        await send(cluster, 2)
        await stream.stop_at_present()
        start = await stream.first_position()
        await send(cluster, 2)
        end = await stream.next_position(start, is_limited=True)
        assert end.offsets == {queue(0): 2}
        assert await stream.next_position(end, is_limited=True) is end


async def test_the_group_stands_where_the_query_is() -> None:
    async with LocalCluster(topics={"T": 2}) as cluster:
        await send(cluster, 5)
        async with driver(cluster, consumerGroup=GROUP, maxOffsetsPerTrigger="3") as stream:
            start = await stream.first_position()
            end = await stream.next_position(start, is_limited=True)
            assert await lags(cluster) == {queue(0): 5, queue(1): 0}
            await stream.commit(end)
            assert await lags(cluster) == {queue(0): 2, queue(1): 0}
            last = await stream.next_position(end, is_limited=True)
            assert await stream.next_position(last, is_limited=True) is last
            assert await lags(cluster) == {queue(0): 0, queue(1): 0}, "without a word of Spark"
            async with cluster.admin() as admin:
                await admin.delete_group(GROUP)
            await send(cluster, 1)
            end = await stream.next_position(last, is_limited=True)
            await stream.commit(end)
            following = await stream.next_position(end, is_limited=True)
            assert following is end
            assert (await lags(cluster))[queue(0)] == 0, "a group that was lost is made again"


async def test_a_broker_that_is_away_keeps_its_queues_waiting() -> None:
    async with LocalCluster(brokers=2, topics={"T": 1}) as cluster:
        a, b = queue(0), queue(0, "broker-b")
        await send(cluster, 1)
        async with driver(cluster, consumerGroup=GROUP) as stream:
            start = await stream.first_position()
            start = await stream.next_position(start, is_limited=True)
            with cluster.faults.kill("broker-b"):
                await send(cluster, 2)
                end = await stream.next_position(start, is_limited=True)
                assert end.offsets == {a: 3, b: 0}
                await stream.commit(end)
            await send(cluster, 4, broker="broker-b")
            # Its address is new: the route tells.
            last = await stream.next_position(end, is_limited=True)
            assert await ranges(stream, end, last) == [Range(b, 0, 4)]


async def test_a_trigger_that_ends_does_not_pass_over_a_broker() -> None:
    async with (
        LocalCluster(brokers=2, topics={"T": 1}) as cluster,
        driver(cluster, retryTimesWhenPullFailed="0") as stream,
    ):
        start = await stream.first_position()
        await stream.stop_at_present()
        with cluster.faults.kill("broker-b"), pytest.raises(BrokerDownError, match="broker-b"):
            await stream.next_position(start, is_limited=True)


async def test_a_stream_waits_for_its_only_broker() -> None:
    async with LocalCluster(topics={"T": 1}) as cluster, driver(cluster) as stream:
        start = await stream.first_position()
        fault = cluster.faults.kill("broker-a")
        planning = asyncio.ensure_future(stream.next_position(start, is_limited=True))
        fault.remove()
        assert await planning is start


async def test_a_topic_that_was_deleted_and_made_again() -> None:
    async with LocalCluster(topics={"T": 1}) as cluster:
        await send(cluster, 5)
        async with driver(cluster) as stream:
            start = await stream.first_position()
            start = await stream.next_position(start, is_limited=True)
            async with cluster.admin() as admin:
                await admin.delete_topic("T")
            with pytest.raises(ClosedQueueError, match=r"T@broker-a:0 .*stands at offset 5"):
                await stream.next_position(start, is_limited=True)
            await cluster.create_topic("T", 1)
            await send(cluster, 2)
            wanted = (
                "T@broker-a:0: offsets 5 to 5 .* holds 0 to 2: the topic was deleted and made again"
            )
            with pytest.raises(NewTopicError, match=wanted):
                await stream.next_position(start, is_limited=True)
        async with driver(cluster, failOnDataLoss="false") as stream:
            end = await stream.next_position(start, is_limited=True)
            assert await ranges(stream, start, end) == [Range(queue(0), 0, 2)]


async def test_retention_that_passed_the_checkpoint() -> None:
    settings: dict[str, Any] = {"segment_size": 64 * 1024, "file_reserved_time": 1}
    async with LocalCluster(topics={"T": 1}, broker_settings=settings) as cluster:
        await send(cluster, 1)
        async with driver(cluster) as stream:
            start = await stream.first_position()
            start = await stream.next_position(start, is_limited=True)
            await send(cluster, 200)
            await cluster.clock.advance(hours=3)
            await send(cluster, 1)
            least = 0
            async with cluster.admin() as admin:
                while least <= 1:
                    await admin.clean_broker(cluster.brokers["broker-a"])
                    least = (await admin.topic_stats("T"))[0].min_offset
            wanted = (
                f"T@broker-a:0: offsets 1 to 202 .* holds {least} to 202: .*deleted .by retention"
            )
            with pytest.raises(DataLossError, match=wanted):
                await stream.next_position(start, is_limited=True)
        async with driver(cluster, failOnDataLoss="false") as stream:
            end = await stream.next_position(start, is_limited=True)
            assert await ranges(stream, start, end) == [Range(queue(0), least, 202)]


async def test_topics_of_a_pattern_that_come_later() -> None:
    async with (
        LocalCluster(topics={"Ta": 1, "Other": 1}) as cluster,
        driver(cluster, subscribe="", subscribePattern="T.*") as stream,
    ):
        start = await stream.first_position()
        assert start.offsets == {MessageQueue("Ta", "broker-a", 0): 0}
        await cluster.create_topic("Tb", 1)
        async with cluster.producer() as producer:
            await producer.send(Message("Tb", b"x"))
            await producer.send(Message("Other", b"x"))
        end = await stream.next_position(start, is_limited=True)
        wanted = Range(MessageQueue("Tb", "broker-a", 0), 0, 1)
        assert await ranges(stream, start, end) == [wanted]


async def test_queues_one_by_one() -> None:
    async with LocalCluster(topics={"T": 3}) as cluster:
        for queue_id in range(3):
            await send(cluster, 2, queue_id)
        assigned = '{"T": {"broker-a": [0, 2]}}'
        async with driver(cluster, subscribe="", assign=assigned) as stream:
            start = await stream.first_position()
            end = await stream.next_position(start, is_limited=True)
            wanted = [Range(queue(0), 0, 2), Range(queue(2), 0, 2)]
            assert await ranges(stream, start, end) == wanted


async def test_a_query_begins_at_a_time_and_its_tasks_are_bounded() -> None:
    async with LocalCluster(topics={"T": 2}) as cluster:
        await send(cluster, 2)
        await cluster.clock.advance(hours=1)
        at_ms = cluster.clock.now_ms()
        await send(cluster, 5)
        options = {"startingTimestamp": str(at_ms), "maxRecordsPerPartition": "2"}
        async with driver(cluster, startingOffsets="latest", **options) as stream:
            start = await stream.first_position()
            assert start.offsets == {queue(0): 2, queue(1): 0}
            end = await stream.next_position(start, is_limited=True)
            found = await ranges(stream, start, end)
            assert [(r.start, r.end) for r in found] == [(2, 4), (4, 6), (6, 7)]


async def test_batches_of_a_spark_that_does_not_say_where_they_begin() -> None:
    # Before 4.2: the end is asked for without a start, which is told only with the tasks.
    async with LocalCluster(topics={"T": 1}) as cluster:
        await send(cluster, 2)
        async with driver(cluster, startingOffsets="latest") as stream:
            first = await stream.first_position()
            assert await stream.last_position(first) is first
            await send(cluster, 3)
            end = await stream.last_position(first)
            assert await ranges(stream, first, end) == [Range(queue(0), 2, 5)]
        async with driver(cluster, startingOffsets="latest") as stream:
            again = await stream.first_position()
            assert await ranges(stream, again, end) == [Range(queue(0), 2, 5)]
            async with cluster.admin() as admin:
                await admin.create_topic("T", queues=2)
            await send(cluster, 4, 1)
            last = await stream.last_position(None)
            assert await ranges(stream, end, last) == [Range(queue(1), 0, 4)]


# -- rows that count only when their write is committed -----------------------------------------


def marked(epoch: int, **more: str) -> dict[str, str]:
    return {WRITER_ID: "w@broker-a", WRITER_SEQUENCE: f"{epoch}-0-0000000000", **more}


async def send_marked(
    cluster: AsyncCluster, count: int, epoch: int, *, has_topic: bool = True
) -> OffsetRanges:
    """What a task of a marked write leaves behind, before its job is committed."""
    if has_topic:
        async with ClientInstance(cluster.namesrv) as instance:
            await commit_brokers(instance, COMMIT_TOPIC)  # as the driver of a write does first
    places: OffsetRanges = {}
    async with cluster.producer() as producer:
        for _ in range(count):
            message = Message("T", b"x", properties=marked(epoch))
            sent = await producer.send(message, queue=queue(0))
            assert sent.queue_offset is not None
            places.setdefault(queue(0), []).append((sent.queue_offset, sent.queue_offset + 1))
    return places


async def publish_ranges(cluster: AsyncCluster, epoch: int, places: OffsetRanges) -> None:
    async with ClientInstance(cluster.namesrv) as instance:
        writer = await writer_of(instance, COMMIT_TOPIC, "w")
        await publish(instance, COMMIT_TOPIC, writer, epoch, places)


def counted(task: StreamTask) -> list[int]:
    """Which offsets a task gives, were all of its messages marked."""
    offsets = np.arange(task.wanted.start, task.wanted.end)
    assert task.counts is not None
    writers = pa.array(["w@broker-a"] * len(offsets))
    found = task.counts.counts(writers, offsets, np.full(len(offsets), 2**62))
    kept: list[int] = (offsets if found is None else offsets[found]).tolist()
    return kept


async def given(stream: StreamDriver, start: Position, end: Position) -> list[int]:
    return [o for task in await stream.tasks(start, end) for o in counted(task)]


async def test_repeats_of_a_batch_are_dropped_and_what_comes_late_is_not_lost() -> None:
    async with LocalCluster(topics={"T": 1}) as cluster:
        first = await send_marked(cluster, 3, epoch=0)
        async with driver(cluster, dropRepeats="true") as stream:
            start = await stream.first_position()
            end = await stream.next_position(start, is_limited=True)
            assert await given(stream, start, end) == [], "nothing counts yet"
            await publish_ranges(cluster, 0, first)
            late = await stream.next_position(end, is_limited=True)
            assert await given(stream, end, late) == [0, 1, 2]
            assert await stream.next_position(late, is_limited=True) is late

            again = await send_marked(cluster, 3, epoch=0)
            await publish_ranges(cluster, 0, again)
            second = await send_marked(cluster, 2, epoch=1)
            await publish_ranges(cluster, 1, second)
            last = await stream.next_position(late, is_limited=True)
            assert await given(stream, late, last) == [6, 7], "the first commit of a batch holds"
        # A driver that starts anew plans each batch as it was planned before.
        async with driver(cluster, dropRepeats="true") as stream:
            for begin, until, wanted in ((start, end, []), (end, late, [0, 1, 2])):
                texts = [json.loads(json.dumps(p.encode())) for p in (begin, until)]
                found = await given(stream, *map(Position.decode, texts))
                assert found == wanted
            assert await given(stream, late, last) == [6, 7]
            assert await stream.next_position(last, is_limited=True) is last


async def test_a_first_batch_of_late_rows_is_the_same_when_it_is_run_again() -> None:
    async with LocalCluster(topics={"T": 1}) as cluster:
        places = await send_marked(cluster, 3, epoch=0, has_topic=False)
        options = {"dropRepeats": "true", "startingOffsets": "latest"}
        async with driver(cluster, **options) as stream:
            start = await stream.first_position()
            await publish_ranges(cluster, 0, places)
            end = await stream.next_position(start, is_limited=True)
            assert await given(stream, start, end) == [0, 1, 2]
        async with driver(cluster, **options) as stream:
            again = await stream.first_position()
            assert again != start
            assert await given(stream, again, end) == [0, 1, 2]


async def test_a_stream_that_begins_to_drop_repeats_gives_nothing_twice() -> None:
    async with LocalCluster(topics={"T": 1}) as cluster:
        await publish_ranges(cluster, 0, await send_marked(cluster, 3, epoch=0))
        async with driver(cluster) as stream:
            start = await stream.first_position()
            start = await stream.next_position(start, is_limited=True)
        await publish_ranges(cluster, 1, await send_marked(cluster, 2, epoch=1))
        async with driver(cluster, dropRepeats="true") as stream:
            end = await stream.next_position(start, is_limited=True)
            assert await given(stream, start, end) == [3, 4]
            assert await stream.next_position(end, is_limited=True) is end


async def test_a_stream_that_does_not_drop_repeats_any_more_goes_on() -> None:
    async with LocalCluster(topics={"T": 1}) as cluster:
        await publish_ranges(cluster, 0, await send_marked(cluster, 3, epoch=0))
        async with driver(cluster, dropRepeats="true") as stream:
            start = await stream.first_position()
            start = await stream.next_position(start, is_limited=True)
        await publish_ranges(cluster, 1, await send_marked(cluster, 2, epoch=1))
        async with driver(cluster, minOffsetsPerTrigger="9") as stream:
            await stream.stop_at_present()
            end = await stream.next_position(start, is_limited=True)
            assert await ranges(stream, start, end) == [Range(queue(0), 3, 5)]
            assert await stream.next_position(end, is_limited=True) is end


async def test_a_trigger_that_ends_takes_only_commits_that_were_there() -> None:
    async with LocalCluster(topics={"T": 1}) as cluster:
        places = await send_marked(cluster, 3, epoch=0)
        async with driver(cluster, dropRepeats="true") as stream:
            start = await stream.first_position()
            await stream.stop_at_present()
            await publish_ranges(cluster, 0, places)
            end = await stream.next_position(start, is_limited=True)
            assert await given(stream, start, end) == []
            assert await stream.next_position(end, is_limited=True) is end
        async with driver(cluster, dropRepeats="true") as stream:
            last = await stream.next_position(end, is_limited=True)
            assert await given(stream, end, last) == [0, 1, 2]
