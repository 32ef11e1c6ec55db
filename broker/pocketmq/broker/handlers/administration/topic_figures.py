"""The figures of many topics at once: 31050."""

from __future__ import annotations

from collections.abc import Collection

from pocketmq.broker.counters.store_counters import StoreCounters
from pocketmq.broker.counters.traffic import MESSAGES, MINUTE
from pocketmq.broker.reading.pull_progress import PullProgress
from pocketmq.broker.store.store import MessageStore
from pocketmq.broker.topics.topics import TopicTable
from pocketmq.protocol.bodies.topics import TopicFigures, TopicFiguresTable, TopicNames
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.errors import response_error
from pocketmq.protocol.names.names import BUILT_IN_GROUPS
from pocketmq.protocol.wire.command import Command
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.slices import QUEUES_PER_SLICE, encoded_in_slices, in_slices
from pocketmq.transport.connection import Connection, Handler

TOPICS_MAX = 1000
"""Topics of one request."""


class TopicFigureHandlers:
    """Tells how much topics hold, and how fast messages come and go.

    Args:
        topics, store: of the broker.
        counters: what was stored.
        progress: what was handed out.
        clock: for the rates, and for the turns of others.
    """

    def __init__(
        self,
        topics: TopicTable,
        store: MessageStore,
        counters: StoreCounters,
        progress: PullProgress,
        clock: Clock,
    ) -> None:
        self._topics, self._store, self._clock = topics, store, clock
        self._counters, self._progress = counters, progress

    def table(self) -> dict[int, Handler]:
        """The handlers by request code."""
        return {RequestCode.TOPIC_FIGURES: self.figures}

    async def figures(self, command: Command, _: Connection) -> Command:
        """31050: of the topics that this broker has; the others are left out."""
        names = TopicNames.of_request(command.body).topics
        if len(names) > TOPICS_MAX:
            raise response_error(
                ResponseCode.SYSTEM_ERROR,
                f"{len(names)} topics are named, allowed are {TOPICS_MAX}: ask in parts",
            )
        found = {name: TopicFigures() for name in names if name in self._topics}
        await self._add_queues(found)
        await self._add_delivered(found)
        encoded = await encoded_in_slices(self._clock, TopicFiguresTable(topics=found))
        return Command(ResponseCode.SUCCESS, body=encoded)

    async def _add_queues(self, found: dict[str, TopicFigures]) -> None:
        queues = [(name, queue_id) for name in found for queue_id in self._queue_ids(name)]
        async for name, queue_id in in_slices(self._clock, queues, QUEUES_PER_SLICE):
            figures = found[name]
            figures.queues += 1
            queue_log = self._store.log_if_sound(name, queue_id)
            if queue_log is not None:
                figures.messages += queue_log.max_offset - queue_log.min_offset
                figures.stored += queue_log.max_offset
                figures.size += queue_log.size
        for name, figures in found.items():
            figures.in_rate = self._counters.topics.per_second(name)

    def _queue_ids(self, name: str) -> Collection[int]:
        config = self._topics.get(name)
        count = 0 if config is None else config.queue_nums_max
        return {*range(count), *self._store.queue_ids(name)}

    async def _add_delivered(self, found: dict[str, TopicFigures]) -> None:
        now_s = self._clock.monotonic()
        pulled = [
            (figures, traffic)
            for (group, topic), traffic in self._progress.pulled.items()
            if (figures := found.get(topic)) is not None and group not in BUILT_IN_GROUPS
        ]
        async for figures, traffic in in_slices(self._clock, pulled, QUEUES_PER_SLICE):
            figures.delivered += traffic.messages
            figures.out_rate += traffic.growth(now_s, MINUTE).per_second(MESSAGES)
