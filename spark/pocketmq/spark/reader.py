"""The batch reader: messages of topics become rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from pocketmq.client.instance import ClientInstance
from pocketmq.spark import offsets, topics
from pocketmq.spark.decoding import decode_records
from pocketmq.spark.errors import DataLossError
from pocketmq.spark.offsets import Range
from pocketmq.spark.options import ReadOptions
from pocketmq.spark.pulling import pulled_parts
from pocketmq.transport.runtime import run


class RangePartition(InputPartition):
    """The messages of one task: a range of one queue."""

    def __init__(self, wanted: Range) -> None:
        super().__init__(wanted)
        self.wanted = wanted


class MessageReader(DataSourceReader):
    """Made on the driver, copied to each task.

    Args:
        options: of the read.
    """

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """What to read: settled once, before the job starts.

        Raises:
            MissingTopicError: a topic does not exist.
            OptionError, DataLossError: the offsets asked for do not fit.
        """
        return [RangePartition(r) for r in run(self._ranges())]

    async def _ranges(self) -> list[Range]:
        options = self._options
        start = offsets.starting(options.starting_offsets)
        end = offsets.ending(options.ending_offsets)
        async with ClientInstance(options.namesrv_addr) as instance:
            queues = await topics.queues_to_read(instance, options.topics)
            ends = await topics.queue_ends(instance, queues)
        whole = offsets.ranges(start, end, ends, fail_on_data_loss=options.fail_on_data_loss)
        return offsets.split(whole, options.min_partitions)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of one task, as record batches.

        Raises:
            DataLossError: messages are not there any more, and this is to be an error.
            OperatingError: the broker fails or refuses.
        """
        if not isinstance(partition, RangePartition):
            return  # there is nothing to read: Spark then makes one task of nothing
        wanted, options = partition.wanted, self._options
        queue, following = wanted.queue, wanted.start
        for part in pulled_parts(options, wanted):
            batch = decode_records(
                part,
                queue.broker_name,
                with_properties=options.include_properties,
                offset_end=wanted.end,
            )
            if batch.num_rows == 0:
                continue
            first = batch["queueOffset"][0].as_py()
            if first > following and options.fail_on_data_loss:
                raise DataLossError(str(queue), following, wanted.end, first, wanted.end)
            following = batch["queueOffset"][-1].as_py() + 1
            yield batch
