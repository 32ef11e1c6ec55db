"""What users set of a Taskiq broker, beside the settings of all clients."""

from __future__ import annotations

from typing import Annotated

import msgspec

from pocketmq.client.consumers.priority_topics import Priorities
from pocketmq.client.settings import InvisibleTime, NotNegative, Positive
from pocketmq.protocol.requests.popping import POPPED_MAX

PopBatch = Annotated[int, msgspec.Meta(ge=1, le=POPPED_MAX)]


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that are a Taskiq broker's own.

    Attributes:
        cluster: where the topics are created; needed only if there are several clusters.
        queues_per_topic: queues on each broker of a topic that is created. All workers pop from
            all of them; with one, the tasks of a broker begin in the order of sending.
        invisible_ms: for how long other workers do not get a task that one has; it is renewed
            until the task is acknowledged, so this is how long tasks of a killed worker wait.
        redeliveries_max: how often a task comes again before it becomes a dead letter.
        pop_batch_size: tasks that one request brings at most, 1 to 32; a worker that is busy has
            so many tasks waiting, beside those of its ``--max-prefetch``.
        priority_steps: the priorities that have a topic of their own; (0,) for no priorities.
    """

    cluster: str = ""
    queues_per_topic: Positive = 1
    invisible_ms: InvisibleTime = 60_000
    redeliveries_max: NotNegative = 16
    pop_batch_size: PopBatch = 8
    priority_steps: Priorities = (0,)
