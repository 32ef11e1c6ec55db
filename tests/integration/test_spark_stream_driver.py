"""The driver of a stream on real brokers, without Spark: queues that come, go, and are away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from pocketmq.client import Message
from pocketmq.client.errors import BrokerDownError
from pocketmq.client.instance import ClientInstance
from pocketmq.protocol.message import MessageQueue
from pocketmq.spark.errors import ClosedQueueError, DataLossError, MissingTopicError, OptionError
from pocketmq.spark.offsets import Range
from pocketmq.spark.stream_driver import StreamDriver
from pocketmq.spark.stream_offsets import Position
from pocketmq.spark.stream_options import stream_options
from pocketmq.testing import AsyncCluster, LocalCluster

pytest.importorskip("pyarrow")

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
                seen.append(await stream.ranges(start, end))
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
            assert await stream.ranges(again, end) == [Range(queue(0), 3, 7)]
            following = await stream.next_position(end, is_limited=True)
            assert await stream.ranges(end, following) == [Range(queue(0), 7, 12)]


async def test_new_queues_are_read_from_their_start() -> None:
    async with LocalCluster(topics={"T": 1}) as cluster, driver(cluster) as stream:
        start = await stream.first_position()
        async with cluster.admin() as admin:
            await admin.create_topic("T", queues=3)
        await send(cluster, 2, 2)
        end = await stream.next_position(start, is_limited=True)
        assert await stream.ranges(start, end) == [Range(queue(2), 0, 2)]
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
            assert await stream.ranges(end, last) == [Range(b, 0, 4)]


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
            wanted = "T@broker-a:0: offsets 5 to 5 .* holds 0 to 2"
            with pytest.raises(DataLossError, match=wanted):
                await stream.next_position(start, is_limited=True)
        async with driver(cluster, failOnDataLoss="false") as stream:
            end = await stream.next_position(start, is_limited=True)
            assert await stream.ranges(start, end) == [Range(queue(0), 0, 2)]


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
            wanted = f"T@broker-a:0: offsets 1 to 202 .* holds {least} to 202"
            with pytest.raises(DataLossError, match=wanted):
                await stream.next_position(start, is_limited=True)
        async with driver(cluster, failOnDataLoss="false") as stream:
            end = await stream.next_position(start, is_limited=True)
            assert await stream.ranges(start, end) == [Range(queue(0), least, 202)]
