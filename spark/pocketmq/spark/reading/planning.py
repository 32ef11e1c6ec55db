"""Plans what a batch read takes of each queue: on the driver, once."""

from __future__ import annotations

from collections.abc import Callable

from pocketmq.client.instance.instance import ClientInstance
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.spark import topics
from pocketmq.spark.options import ReadOptions
from pocketmq.spark.reading import offsets
from pocketmq.spark.reading.offsets import Range
from pocketmq.spark.reading.selection import selected_queues
from pocketmq.spark.reading.time_bounds import ending_bound, starting_bound


async def planned_ranges(
    instance: ClientInstance,
    options: ReadOptions,
    takes_queue: Callable[[MessageQueue], bool] = lambda queue: True,
) -> list[Range]:
    """Returns the ranges that the options name, of those queues that are taken.

    Raises:
        OptionError, DataLossError: the bounds do not fit.
        MissingTopicError: a topic does not exist.
        OperatingError: a broker cannot be asked.
    """
    queues = await selected_queues(instance, options)
    # Times before ends: so what is found for a time is not beyond the ends of a growing queue.
    start = await starting_bound(instance, options, queues)
    end = await ending_bound(instance, options, queues)
    for bound in (start, end):
        offsets.check_names(bound, queues)
    taken = [q for q in queues if takes_queue(q)]
    ends = await topics.queue_ends(instance, taken)
    start, end = start.within(taken), end.within(taken)
    return offsets.ranges(start, end, ends, fail_on_data_loss=options.fail_on_data_loss)
