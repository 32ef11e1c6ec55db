"""Measures sends and handling by hooks, and writes the metrics of a process' clients."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any, TypeVar
from weakref import WeakSet

from pocketmq.client.blocking.base import Blocking
from pocketmq.client.consumers.group_member import GroupMember
from pocketmq.client.hooks import (
    COMMON,
    ConsumeHooks,
    ConsumeMessageContext,
    SendHooks,
    SendMessageContext,
)
from pocketmq.protocol.errors import ContentError, UsageError
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.message import ReceivedMessage
from pocketmq.protocol.messages.receipts import ReceiptHandle
from pocketmq.runtime import VERSION
from pocketmq.runtime.clock import Clock, SystemClock
from pocketmq.runtime.loop_thread import LoopThread
from pocketmq.runtime.metrics.endpoint import ScrapeRequest, only_page
from pocketmq.runtime.metrics.exposition import (
    Exposition,
    Family,
    Format,
    Kind,
    LabelSets,
    label_text,
    with_label,
)
from pocketmq.runtime.metrics.instruments import Histograms
from pocketmq.transport.metering.scrape_port import open_scrape_port

SEND_COST_TIME = Family(
    "rocketmq_send_cost_time", Kind.HISTOGRAM, "Milliseconds that an attempt to send took",
    (1, 5, 10, 20, 50, 200, 500),
)  # fmt: skip
DELIVERY_LATENCY = Family(
    "rocketmq_delivery_latency", Kind.HISTOGRAM,
    "Milliseconds from the pop of a message in the broker to its arrival",
    (1, 5, 10, 20, 50, 200, 500),
)  # fmt: skip
AWAIT_TIME = Family(
    "rocketmq_await_time", Kind.HISTOGRAM,
    "Milliseconds from the arrival of a message to the call of the listener",
    (1, 5, 20, 100, 1000, 5000, 10_000),
)  # fmt: skip
PROCESS_TIME = Family(
    "rocketmq_process_time", Kind.HISTOGRAM, "Milliseconds that the listener took",
    (1, 5, 10, 100, 1000, 10_000, 60_000),
)  # fmt: skip
CACHED_MESSAGES = Family(
    "rocketmq_consumer_cached_messages", Kind.GAUGE, "Messages that came and are not handled"
)
CACHED_BYTES = Family(
    "rocketmq_consumer_cached_bytes", Kind.GAUGE, "Bytes of the messages that are not handled"
)
BUILD = Family("pocketmq_client_build_info", Kind.GAUGE, "1, with the version as label")

ARRIVALS_MAX = 100_000
"""Messages whose arrival is remembered until they are handled; then the oldest are forgotten."""

SUCCESS, FAILURE = "success", "failure"

ConsumerT = TypeVar("ConsumerT", bound="GroupMember[Any] | Blocking[Any]")


class ClientMetrics:
    """The metrics of the clients of a process, for Prometheus.

    The names, types and buckets are those of RocketMQ 5's clients (`HistogramEnum`, `GaugeEnum`),
    which push them by OTLP. Their label ``client_id`` is left out: Prometheus' own label
    ``instance`` tells the process. Blocking clients are measured alike, from any thread.

    Args:
        clock: measures.

    Attributes:
        send_hooks: of producers; `install` gives them to all.
        consume_hooks: of push consumers.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()  # blocking clients and the application have other threads
        self._sends: Histograms[tuple[str, str]] = Histograms(SEND_COST_TIME)
        self._deliveries: Histograms[tuple[str, str]] = Histograms(DELIVERY_LATENCY)
        self._awaits: Histograms[tuple[str, str]] = Histograms(AWAIT_TIME)
        self._processes: Histograms[tuple[str, str, str]] = Histograms(PROCESS_TIME)
        self._of_sends = LabelSets({}, "topic", "invocation_status")
        self._of_groups = LabelSets({}, "topic", "consumer_group")
        self._of_processes = LabelSets({}, "topic", "consumer_group", "invocation_status")
        self._arrivals: dict[int, tuple[float, int]] = {}
        self._watched: WeakSet[GroupMember[Any]] = WeakSet()
        self.send_hooks = SendHooks(before=[self._send_begins], after=[self._send_ended])
        self.consume_hooks = ConsumeHooks(
            filters=[self._arrived], before=[self._handling_begins], after=[self._handling_ended]
        )
        self._receive_hooks = ConsumeHooks(before=[self._received])

    def install(self) -> None:
        """Measures all clients that this process makes from now on, besides their own hooks."""
        COMMON.sending += self.send_hooks
        COMMON.handling += self.consume_hooks
        COMMON.receiving += self._receive_hooks

    def watch(self, consumer: ConsumerT) -> ConsumerT:
        """Tells how many messages a push or lite pull consumer holds, as long as it is there.

        Returns:
            the consumer.
        """
        self._watched.add(consumer._twin if isinstance(consumer, Blocking) else consumer)
        return consumer

    # -- measuring ----------------------------------------------------------------------------

    def _send_begins(self, context: SendMessageContext) -> None:
        context.notes[self] = self._clock.monotonic()

    def _send_ended(self, context: SendMessageContext) -> None:
        latency_ms = (self._clock.monotonic() - context.notes.pop(self)) * 1000
        status = SUCCESS if context.error is None else FAILURE
        with self._lock:
            histogram = self._sends[context.queue.topic, status]
            for _ in context.messages:
                histogram.observe(latency_ms)

    def _arrived(self, message: ReceivedMessage) -> bool:
        arrivals = self._arrivals
        arrivals[id(message)] = (self._clock.monotonic(), self._clock.now_ms())
        if len(arrivals) > ARRIVALS_MAX:
            arrivals.pop(next(iter(arrivals)), None)
        return True

    def _handling_begins(self, context: ConsumeMessageContext) -> None:
        arrived = [self._arrivals.pop(id(message), None) for message in context.messages]
        now_s, first = self._clock.monotonic(), context.messages[0]
        key = first.topic, context.consumer_group
        if arrived[0] is not None:  # of a batch the first one counts, as with RocketMQ
            arrived_s, arrived_ms = arrived[0]
            with self._lock:
                self._awaits[key].observe((now_s - arrived_s) * 1000)
            self._delivered(first, key, arrived_ms)
        context.notes[self] = now_s

    def _handling_ended(self, context: ConsumeMessageContext) -> None:
        latency_ms = (self._clock.monotonic() - context.notes.pop(self)) * 1000
        status = SUCCESS if context.success else FAILURE
        with self._lock:
            key = context.messages[0].topic, context.consumer_group, status
            histogram = self._processes[key]
            for _ in context.messages:
                histogram.observe(latency_ms)

    def _received(self, context: ConsumeMessageContext) -> None:
        first = context.messages[0]
        self._delivered(first, (first.topic, context.consumer_group), self._clock.now_ms())

    def _delivered(self, message: ReceivedMessage, key: tuple[str, str], arrived_ms: int) -> None:
        """Notes how long a popped message was on its way; pulls do not tell when it was sent."""
        text = message.properties.get(props.POP_CK)
        if text is None:
            return
        try:
            popped_ms = ReceiptHandle.decode(text).pop_time
        except (ContentError, UsageError):
            return
        if arrived_ms >= popped_ms:  # else the clocks of both machines differ
            with self._lock:
                self._deliveries[key].observe(arrived_ms - popped_ms)

    # -- telling ------------------------------------------------------------------------------

    def text(self, *, openmetrics: bool = False) -> bytes:
        """Returns the metrics, for an endpoint that the application has anyway.

        Args:
            openmetrics: in OpenMetrics instead of Prometheus' text format; `content_type` tells
                how to call them.
        """
        out = Exposition(Format.OPENMETRICS if openmetrics else Format.TEXT, self._clock)
        for _ in self._figures(out):
            pass
        return out.end()

    @staticmethod
    def content_type(*, openmetrics: bool = False) -> str:
        """Returns the content type of what `text` returns."""
        content_type: str = (Format.OPENMETRICS if openmetrics else Format.TEXT).value
        return content_type

    @asynccontextmanager
    async def serve(self, port: int = 0, host: str = "127.0.0.1") -> AsyncIterator[int]:
        """Serves ``/metrics`` within ``async with metrics.serve(9464) as port``.

        Args:
            port: 0 lets the system choose.
            host: the address to listen on; whoever reaches it learns names of topics and groups.

        Raises:
            CannotListenError: the address is in use or not of this machine.
        """
        async with AsyncExitStack() as stack:
            name = "the metrics of clients"
            yield await open_scrape_port(self._page, host, port, self._clock, name, stack)

    @contextmanager
    def serving(self, port: int = 0, host: str = "127.0.0.1") -> Iterator[int]:
        """Does what `serve` does for an application without an event loop, in the clients' thread.

        Args:
            port, host: as of `serve`.

        Raises:
            CannotListenError: the address is in use or not of this machine.
        """
        thread = LoopThread.shared()
        try:
            served = self.serve(port, host)
            yield thread.run(served.__aenter__())
            thread.run(served.__aexit__(None, None, None))
        finally:
            thread.leave()

    async def _page(self, request: ScrapeRequest) -> bytes | None:
        return await only_page(request, self._clock, self._figures)

    def _figures(self, out: Exposition) -> Iterator[int]:
        with self._lock:
            for histograms, labels in (
                (self._sends, self._of_sends),
                (self._deliveries, self._of_groups),
                (self._awaits, self._of_groups),
                (self._processes, self._of_processes),
            ):
                _write(out, histograms, labels)
        for labels in (self._of_sends, self._of_groups, self._of_processes):
            labels.end_scrape()
        yield 1
        counts: Counter[tuple[str, str]] = Counter()
        sizes: Counter[tuple[str, str]] = Counter()
        for consumer in list(self._watched):
            for topic, (count, size) in consumer.cached_messages().items():
                counts[topic, consumer.group] += count
                sizes[topic, consumer.group] += size
        for family, numbers in ((CACHED_MESSAGES, counts), (CACHED_BYTES, sizes)):
            out.begin(family)
            for key, number in numbers.items():
                out.sample(self._of_groups.text(*key), number)
        out.begin(BUILD)
        out.sample(with_label(label_text({}), "version", VERSION), 1)
        yield 1


def _write(out: Exposition, histograms: Histograms[Any], labels: LabelSets) -> None:
    for _ in histograms.write(out, lambda key: labels.text(*key)):
        pass
