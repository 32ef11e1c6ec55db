"""The pages that a broker's scrapers get: ``/metrics`` and ``/metrics/per-queue``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import Any, TypeVar

from pocketmq.broker.metrics import families as f
from pocketmq.broker.metrics.broker_figures import BrokerFigures, Process, Served
from pocketmq.broker.metrics.columns import ROWS_MAX, Columns
from pocketmq.broker.metrics.lags import Lag, Lags
from pocketmq.broker.metrics.metering import Metering
from pocketmq.broker.parts import BrokerParts
from pocketmq.protocol.bodies.clients import CONSUME_ACTIVELY, CONSUME_POP
from pocketmq.protocol.codes import Version
from pocketmq.protocol.errors import UsageError
from pocketmq.protocol.names import names
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.metrics.endpoint import ScrapeRequest
from pocketmq.runtime.metrics.exposition import (
    Exposition,
    Family,
    LabelSets,
    label_text,
    portions,
    with_label,
)

_VERSIONS = {int(known): known.name.lower() for known in Version}
_MODES = {CONSUME_ACTIVELY: "pull", CONSUME_POP: "pop"}

RowT = TypeVar("RowT", bound=tuple[Any, ...])

SHARES = 6
"""A page's series are shared alike by what comes in, what goes out, sizes, lags, acknowledged pops,
and clients."""

OF_IN = (f.MESSAGES_IN, f.THROUGHPUT_IN)
OF_OUT = (f.MESSAGES_OUT, f.THROUGHPUT_OUT)
OF_LAG = (f.LAG, f.READY, f.IN_FLIGHT, f.LAG_LATENCY, f.QUEUEING_LATENCY)
OF_QUEUE = (f.QUEUE_MIN, f.QUEUE_MAX, f.QUEUE_OFFSET, f.QUEUE_LAG)


class BrokerMetrics:
    """Writes a broker's metrics for each scrape.

    Args:
        cluster, name: of the broker, for the labels that all metrics have.
        series_max: series of topics, groups and clients that a page has (metricsMaxSeries); see
            `SHARES`. Those with the most messages are shown, and `pocketmq_metrics_truncated`
            counts the others.
        served: returns what the broker has while it serves clients; None while it does not.
        process: what it has in any case.
        clock: of the broker.

    Attributes:
        metering: what the broker counts for it.
    """

    def __init__(
        self,
        cluster: str,
        name: str,
        series_max: int,
        served: Callable[[], Served | None],
        process: Process,
        clock: Clock,
    ) -> None:
        self._served, self._clock = served, clock
        self._share = max(series_max // SHARES, 1)
        node = {"cluster": cluster, "node_id": name, "node_type": "broker"}
        of_meter = node | {"otel_scope_name": "broker-meter"}
        storage = {"storage_medium": "disk", "storage_type": "local"}
        self.metering = Metering(node, of_meter, storage, clock)
        self._figures = BrokerFigures(node, of_meter, storage, process, self.metering, clock)
        self._node = label_text(node)
        self._truncated: Counter[str] = Counter()
        self._in, self._out, self._behind = Columns(OF_IN), Columns(OF_OUT), Columns(OF_LAG)
        self._acked = Columns((f.POP_ACKED,))
        self._lags_of_groups = Lags()
        self._topics = LabelSets(of_meter, "topic", "is_system", "message_type", complete=_of_topic)
        self._pairs = LabelSets(of_meter, "consumer_group", "topic", "is_system", complete=_of_pair)
        self._pops = LabelSets(node, "consumer_group", "topic")
        self._lags = LabelSets(
            of_meter, "consumer_group", "topic", "is_system", "is_retry", complete=_of_lag
        )
        self._producers = LabelSets(of_meter, "language", "version", "protocol_type")
        self._consumers = LabelSets(
            of_meter, "consumer_group", "is_system", "consume_mode", "language", "version",
            "protocol_type",
        )  # fmt: skip
        self._sets = (
            self._topics, self._pairs, self._pops, self._lags, self._producers, self._consumers
        )  # fmt: skip

    async def page(self, request: ScrapeRequest) -> bytes | None:
        """Writes the page of a request; None if there is no such page.

        Raises:
            UsageError: the query names no topic, or one that is not there.
        """
        if request.path not in ("/metrics", "/metrics/per-queue"):
            return None
        began_s = self._clock.stopwatch()
        out = Exposition(request.written_as, self._clock, is_compressed=request.takes_gzip)
        served = self._served()
        if request.path == "/metrics/per-queue":
            parts = None if served is None else served.parts
            await out.write(self._queues(out, parts, request.query.get("topic", "")))
            return out.end()
        self._truncated.clear()
        if served is not None:
            parts, redrives = served
            await out.write(self._lags_of_groups.compute(parts))
            await out.write(self._traffic(out, parts))
            await out.write(self._sizes(out, parts))
            await out.write(self._write_lags(out, self._lags_of_groups.rows))
            await out.write(self._acknowledged(out, parts))
            await out.write(self._clients(out, parts))
            await out.write(self.metering.write(out, parts))
            await out.write(self._figures.of_parts(out, parts))
            await out.write(self._figures.redrives(out, redrives))
            await out.write(self._figures.conflicts(out, parts))
        await out.write(self._figures.of_process(out, is_serving=served is not None))
        await out.write(self._of_scrape(out, began_s))
        for sets in self._sets:
            sets.end_scrape()
        return out.end()

    def _of_scrape(self, out: Exposition, began_s: float) -> Iterator[int]:
        out.begin(f.TRUNCATED)
        for name, count in self._truncated.items():
            out.sample(with_label(self._node, "family", name), count)
        out.begin(f.SCRAPE_SECONDS)
        out.sample(self._node, round(self._clock.stopwatch() - began_s, 6))
        yield 1

    # -- topics and groups --------------------------------------------------------------------

    def _traffic(self, out: Exposition, parts: BrokerParts) -> Iterator[int]:
        topics = parts.data.topics
        stored: list[tuple[int, int, str]] = []
        for of_topics in portions(parts.data.store.counters.topics.items(), ROWS_MAX):
            stored += [(t.messages, t.size, name) for name, t in of_topics if name in topics]
            yield len(of_topics)
        stored = self._most(stored, OF_IN)
        text = self._topics.text
        yield from self._in.write(
            out, stored, lambda topic: text(topic, self._type_of(parts, topic)), topics.version
        )
        dead = [row for row in stored if row[2].startswith(names.DLQ_PREFIX)]
        out.begin(f.DEAD_LETTERS)
        for count, _, name in dead:
            out.sample(self._pairs.text(name.removeprefix(names.DLQ_PREFIX), name), count)
            yield 1
        given: list[tuple[int, int, str, str]] = []
        for of_pairs in portions(parts.progress.pulled.items(), ROWS_MAX):
            given += [
                (p.messages, p.size, group, topic)
                for (group, topic), p in of_pairs
                if p.messages and topic in topics
            ]
            yield len(of_pairs)
        given = self._most(given, OF_OUT)
        yield from self._out.write(out, given, self._pairs.text)

    def _sizes(self, out: Exposition, parts: BrokerParts) -> Iterator[int]:
        sizes, topics = self.metering.sizes, parts.data.topics
        sizes.keep(topics.__contains__)
        rows: list[tuple[int, str]] = []
        for of_topics in portions(sizes.items(), ROWS_MAX):
            rows += [(sum(histogram.counts), topic) for topic, histogram in of_topics]
            yield 2 * len(of_topics)
        lines = len(sizes.family.bounds) + 3
        out.begin(sizes.family)
        for _, topic in self._most(rows, (sizes.family,) * lines):
            labels = self._topics.text(topic, self._type_of(parts, topic))
            histogram = sizes[topic]
            out.histogram(labels, sizes.family, histogram.counts, histogram.total)
            yield lines

    def _acknowledged(self, out: Exposition, parts: BrokerParts) -> Iterator[int]:
        topics = parts.data.topics
        rows: list[tuple[int, str, str]] = []
        for of_pairs in portions(parts.popping.traffic.acknowledged.items(), ROWS_MAX):
            rows += [
                (t.messages, group, topic) for (group, topic), t in of_pairs if topic in topics
            ]
            yield len(of_pairs)
        rows = self._most(rows, self._acked.written)
        yield from self._acked.write(out, rows, self._pops.text)

    @staticmethod
    def _type_of(parts: BrokerParts, topic: str) -> str:
        """The type that the topic's messages must have, by its attribute; normal without one."""
        config = parts.data.topics.get(topic)
        if config is None or not config.attributes:
            return "normal"
        return str(config.attributes.get("message.type") or "normal").lower()

    def _write_lags(self, out: Exposition, rows: list[Lag]) -> Iterator[int]:
        most = self._most(rows, OF_LAG)
        yield from self._behind.write(out, most, self._lags.text)

    def _clients(self, out: Exposition, parts: BrokerParts) -> Iterator[int]:
        members = parts.members
        producers: Counter[tuple[str, ...]] = Counter()
        for _, found in list(members.producers):
            for member in found:
                producers[member.language_name.lower(), _version(member.version), "remoting"] += 1
            yield len(found)
        consumers: Counter[tuple[str, ...]] = Counter()
        for name, group in list(members.consumers):
            mode = _MODES.get(group.data.consume_type or "", "push")
            for member in list(group.members.values()):
                language = member.language_name.lower()
                client = (mode, language, _version(member.version), "remoting")
                consumers[name, "false", *client] += 1
            yield len(group.members)
        for family, sets, counts in (
            (f.PRODUCER_CONNECTIONS, self._producers, producers),
            (f.CONSUMER_CONNECTIONS, self._consumers, consumers),
        ):
            rows = self._most([(count, key) for key, count in counts.items()], (family,))
            out.begin(family)
            for count, key in rows:
                out.sample(sets.text(*key), count)
                yield 1

    def _most(self, rows: list[RowT], written: tuple[Family, ...]) -> list[RowT]:
        """Returns the rows that fit into their share, those with the greatest numbers."""
        room = max(self._share // len(written), 1)
        if len(rows) <= room:
            return rows
        for family in set(written):
            self._truncated[family.name] += len(rows) - room
        rows.sort(key=itemgetter(0), reverse=True)
        return rows[:room]

    # -- queues -------------------------------------------------------------------------------

    def _queues(self, out: Exposition, parts: BrokerParts | None, topic: str) -> Iterator[int]:
        """Writes the ends of a topic's queues, and the offsets and lags of its groups in them."""
        if parts is None:
            raise UsageError("this broker does not serve clients: ask the leader of its set")
        if parts.data.topics.get(topic) is None:
            raise UsageError("name a topic of this broker: /metrics/per-queue?topic=Orders")
        store, node = parts.data.store, self._node
        queue_ids, groups = store.queue_ids(topic), sorted(parts.data.offsets.groups_of(topic))
        room = self._share * SHARES
        rows: list[list[tuple[str, int]]] = [[] for _ in OF_QUEUE]
        left_out = 0
        for queue_id in queue_ids:
            if room < 2 + 2 * len(groups):
                left_out += 1
                continue
            room -= 2 + 2 * len(groups)
            queue_log = store.log_if_sound(topic, queue_id)
            low, high = (
                (0, 0) if queue_log is None else (queue_log.min_offset, queue_log.max_offset)
            )
            text = with_label(with_label(node, "topic", topic), "queue_id", queue_id)
            rows[0].append((text, low))
            rows[1].append((text, high))
            for group in groups:
                offset = parts.data.offsets.get(group, topic, queue_id) or 0
                of_group = with_label(text, "consumer_group", group)
                rows[2].append((of_group, offset))
                rows[3].append((of_group, max(high - max(offset, low), 0)))
            yield 5 + 2 * len(groups)
        for family, samples in zip(OF_QUEUE, rows, strict=True):
            out.begin(family)
            for text, value in samples:
                out.sample(text, value)
                yield 1
        out.begin(f.TRUNCATED)
        if left_out:
            out.sample(with_label(node, "family", "pocketmq_queue"), left_out)
        yield 1


def _of_topic(topic: str, message_type: str) -> tuple[str, str, str]:
    return topic, _flag(names.is_system_topic(topic)), message_type


def _of_pair(group: str, topic: str) -> tuple[str, str, str]:
    return group, topic, _flag(names.is_system_topic(topic))


def _of_lag(group: str, topic: str) -> tuple[str, str, str, str]:
    return *_of_pair(group, topic), _flag(topic.startswith(names.RETRY_PREFIX))


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _version(ordinal: int) -> str:
    return _VERSIONS.get(ordinal, f"ordinal_{ordinal}")
