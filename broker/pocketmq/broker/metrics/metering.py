"""What a broker counts only while it is scraped: sizes, latencies, timers, ends of transactions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pocketmq.auth.guard import Guard
from pocketmq.broker.appending.stored_message import StoredMessage
from pocketmq.broker.metrics import families as f
from pocketmq.broker.metrics.metered import MeteredAppender
from pocketmq.broker.metrics.waiting_topics import HalfTopics, TimingTopics
from pocketmq.broker.parts import BrokerParts
from pocketmq.broker.store.store import MessageStore
from pocketmq.broker.transactions.half_states import COMMITTED
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.names import names
from pocketmq.protocol.wire.command import Command
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.metrics.exposition import Exposition, LabelSets
from pocketmq.runtime.metrics.instruments import Counts, Histograms
from pocketmq.transport.metering.rpc_latency import RpcLatency

if TYPE_CHECKING:  # it is loaded with the first client of the gRPC endpoint
    from pocketmq.proxy.metrics.rpc_metrics import RpcMetrics

SIZES_MAX = 10_000
"""Topics whose sizes are counted; a page shows those with the most messages."""

_TOPIC_CODES = {RequestCode.UPDATE_AND_CREATE_TOPIC, RequestCode.UPDATE_AND_CREATE_TOPIC_LIST}
_GROUP_CODES = {
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
}


class Calls(RpcLatency):
    """The latency of requests, and of those that create topics and groups again by themselves.

    Args:
        common: the labels of all series.
    """

    watched = frozenset(map(int, _TOPIC_CODES | _GROUP_CODES))

    def __init__(self, common: Mapping[str, str]) -> None:
        super().__init__(common)
        self._topics: Histograms[tuple[str, str]] = Histograms(f.TOPIC_CREATION)
        self._groups: Histograms[tuple[str]] = Histograms(f.GROUP_CREATION)
        self._of_topics = LabelSets(common, "invocation_status", "is_system")
        self._of_groups = LabelSets(common, "invocation_status")

    def _watch(self, request: Command, code: int, latency_ms: float) -> None:
        status = "success" if code == ResponseCode.SUCCESS else "failure"
        if request.code in _GROUP_CODES:
            self._groups[(status,)].observe(latency_ms)
        else:
            topic = str(request.fields.get("topic", ""))
            is_system = "true" if names.is_system_topic(topic) else "false"
            self._topics[status, is_system].observe(latency_ms)

    def write(self, out: Exposition) -> Iterator[int]:
        """Writes the histograms; yields the work."""
        yield from super().write(out)
        yield from self._topics.write(out, lambda key: self._of_topics.text(*key))
        yield from self._groups.write(out, lambda key: self._of_groups.text(*key))


class Metering:
    """Counts what nobody counts otherwise.

    Args:
        node: the labels of the broker's own metrics.
        common: those of RocketMQ's.
        storage: further labels of series about storage.
        clock: of the broker.

    Attributes:
        calls: the `Meter` of the broker's connections.
        sizes: of stored records, by topic.
        access_refusals: requests that were refused for who asked.
    """

    def __init__(
        self,
        node: Mapping[str, str],
        common: Mapping[str, str],
        storage: Mapping[str, str],
        clock: Clock,
    ) -> None:
        self._node, self._clock = node, clock
        self.calls = Calls(common)
        self.sizes: Histograms[str] = Histograms(f.MESSAGE_SIZE, SIZES_MAX)
        self.access_refusals = 0
        self._of_topics = LabelSets(common, "topic")
        self._of_stored = LabelSets(dict(common) | dict(storage), "topic")
        self._enqueued: Counts[str] = Counts(f.TIMER_ENQUEUED)
        self._dequeued: Counts[str] = Counts(f.TIMER_DEQUEUED)
        self._delays: Histograms[str] = Histograms(f.DELAY_LATENCY)
        self._committed: Counts[str] = Counts(f.COMMITTED)
        self._rolled_back: Counts[str] = Counts(f.ROLLED_BACK)
        self._finish: Histograms[str] = Histograms(f.FINISH_LATENCY)
        self._timing: TimingTopics | None = None
        self._halves: HalfTopics | None = None
        self._rpcs: RpcMetrics | None = None

    def appender(self, store: MessageStore) -> MeteredAppender:
        """Makes the way into a store's logs that notes sizes."""
        return MeteredAppender(store, self.sizes)

    def follow(self, parts: BrokerParts, guard: Guard | None) -> None:
        """Listens to the parts of a broker, which end before it does if it is of a broker set."""
        timers = parts.schedule.timers
        self._timing = TimingTopics(f.TIMING, parts.data.store, timers)
        self._halves = HalfTopics(f.HALF, parts.transactions)
        timers.taken.add(self._timer_taken)
        timers.delivery.copied.add(lambda topic, _: self._dequeued.add(topic))
        parts.transactions.decided.add(self._decided)
        if guard is not None:
            guard.refused.add(self._refused)

    def rpcs(self) -> RpcMetrics:
        """What measures the rpcs of the gRPC endpoint, once there are any."""
        if self._rpcs is None:
            from pocketmq.proxy.metrics.rpc_metrics import RpcMetrics

            self._rpcs = RpcMetrics(self._node, self._clock)
        return self._rpcs

    def _timer_taken(self, topic: str, delay_ms: int) -> None:
        self._enqueued.add(topic)
        self._delays[topic].observe(delay_ms / 1000)

    def _decided(self, half: StoredMessage, outcome: int) -> None:
        topic = props.value_of(half.text, props.REAL_TOPIC) or half.topic
        if outcome == COMMITTED:
            self._committed.add(topic)
            # RocketMQ counts seconds here, although its unit says milliseconds.
            self._finish[topic].observe((self._clock.now_ms() - half.born_timestamp) // 1000)
        else:
            self._rolled_back.add(topic)

    def _refused(self, _: object) -> None:
        self.access_refusals += 1

    def write(self, out: Exposition, parts: BrokerParts) -> Iterator[int]:
        """Writes all but the sizes; yields the work."""
        topics = parts.data.topics
        yield from self.calls.write(out)
        for of_topics, labels in (
            (self._enqueued, self._of_stored),
            (self._dequeued, self._of_stored),
            (self._delays, self._of_stored),
            (self._committed, self._of_topics),
            (self._rolled_back, self._of_topics),
            (self._finish, self._of_topics),
        ):
            of_topics.keep(topics.__contains__)
            yield from of_topics.write(out, labels.text)
        if self._timing is not None:
            yield from self._timing.read()
            yield from self._timing.write(out, topics.__contains__, self._of_stored.text)
        if self._halves is not None:
            yield from self._halves.count()
            yield from self._halves.write(out, topics.__contains__, self._of_topics.text)
        if self._rpcs is not None:
            yield from self._rpcs.write(out)
        self._of_topics.end_scrape()
        self._of_stored.end_scrape()
