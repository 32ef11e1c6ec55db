"""Plans a write on the driver: finds or creates its topics, and who commits its marked rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pocketmq.client.instance.instance import ClientInstance
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.spark.options import WriteOptions
from pocketmq.spark.topics import queues_to_write

if TYPE_CHECKING:
    from pocketmq.spark.rows.marks import WriterIdentity


async def queues_and_writer(
    options: WriteOptions,
) -> tuple[list[MessageQueue], WriterIdentity | None]:
    """Returns the queues of a batch write, and whose marks its rows get.

    Raises:
        MissingTopicError: a topic does not exist and is not to be created.
        OperatingError: the cluster cannot be asked.
    """
    async with options.client() as instance:
        queues = await _queues(instance, options)
        if not options.is_marked:
            return queues, None
        from pocketmq.spark.marked.commits import writer_of  # brings in PyArrow and numpy
        from pocketmq.spark.rows.marks import new_writer_id

        writer_id = options.writer_id or new_writer_id()
        return queues, await writer_of(instance, options.commit_topic, writer_id)


async def queues_and_brokers(options: WriteOptions) -> tuple[list[MessageQueue], list[str]]:
    """Returns the queues of a stream's writes, and which brokers could hold its commits.

    Raises:
        MissingTopicError: a topic does not exist and is not to be created.
        OperatingError: the cluster cannot be asked.
    """
    async with options.client() as instance:
        queues = await _queues(instance, options)
        if not options.is_marked:
            return queues, []
        from pocketmq.spark.marked.commits import commit_brokers  # brings in PyArrow and numpy

        return queues, await commit_brokers(instance, options.commit_topic)


async def _queues(instance: ClientInstance, options: WriteOptions) -> list[MessageQueue]:
    queues = []
    if options.topic:
        queues = await queues_to_write(instance, options.topic, options.create_topic_queues)
    if options.large_row_topic:  # it has to be there before the job starts, too
        side_topic, create_queues = options.large_row_topic, options.create_topic_queues
        await queues_to_write(instance, side_topic, create_queues)
    return queues
