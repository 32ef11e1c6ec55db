"""The figures of a whole broker: its disk, timers, pressure, connections, and its broker set."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

from pocketmq.broker.metrics import families as f
from pocketmq.broker.metrics.metering import Metering
from pocketmq.broker.metrics.timer_snapshot import BOUNDS_S, snapshot
from pocketmq.broker.parts import BrokerParts
from pocketmq.broker.redrive.redrives import Redrives
from pocketmq.broker.store.metadata.log_table import KnownLog
from pocketmq.broker.store.queue_logs import QueueLogs
from pocketmq.broker.store.store import MessageStore
from pocketmq.runtime import VERSION
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.metrics.exposition import Exposition, Family, label_text, portions, with_label
from pocketmq.transport.metering.certificate import write_expiry
from pocketmq.transport.server import Server

if TYPE_CHECKING:
    from pocketmq.broker.broker_set import BrokerSet

LOGS_PER_SLICE = 500
"""Logs that are gone over between two turns of the loop."""

TURNS = 16
"""A scrape looks for the oldest message in a sixteenth of the topics, the first one in all."""


class Served(NamedTuple):
    """What a broker has while it answers clients."""

    parts: BrokerParts
    redrives: Redrives


class Process(NamedTuple):
    """What a broker has whether it answers clients or follows.

    Attributes:
        server: returns the one that listens; None while none does.
        broker_set: returns the broker as a member of its set; None if it stands alone.
    """

    server: Callable[[], Server | None]
    broker_set: Callable[[], BrokerSet | None]


class BrokerFigures:
    """Writes the figures that a broker has one of.

    Args:
        node: the labels of the broker's own metrics.
        common, storage: those of RocketMQ's.
        process: of the broker.
        metering: what is counted for metrics alone.
        clock: of the broker.
    """

    def __init__(
        self,
        node: Mapping[str, str],
        common: Mapping[str, str],
        storage: Mapping[str, str],
        process: Process,
        metering: Metering,
        clock: Clock,
    ) -> None:
        self._node, self._meter = label_text(node), label_text(common)
        self._storage = label_text(dict(common) | dict(storage))
        self._process, self._metering, self._clock = process, metering, clock
        self._turn = 0
        self._oldest_of_turns: dict[int, tuple[int, str, int] | None] = {}

    def _write(self, out: Exposition, *rows: tuple[Family, str, float]) -> None:
        for family, labels, value in rows:
            out.begin(family)
            out.sample(labels, value)

    def of_parts(self, out: Exposition, parts: BrokerParts) -> Iterator[int]:
        """Writes what a broker tells that answers clients; yields the work."""
        data, meter, storage, node = parts.data, self._meter, self._storage, self._node
        store, counters = data.store, data.store.counters
        pressure, use, times = parts.back_pressure, store.disk.use, counters.times
        self._write(
            out,
            (f.TOPIC_NUMBER, meter, len(data.topics)),
            (f.GROUP_NUMBER, meter, sum(1 for _ in data.groups)),
            (f.PERMISSION, meter, data.settings.now.broker_permission),
            (f.STORAGE_SIZE, storage, use.used),
            (f.DISPATCH_BEHIND, storage, 0),
            (f.DELAYED, node, parts.schedule.waiting_count),
            (f.POP_IN_FLIGHT, node, parts.popping.queues.count),
            (f.POP_REVIVED, node, parts.popping.revival.count),
            (f.HELD_PULLS, node, len(parts.polling)),
            (f.HELD_POPS, node, len(parts.waiting)),
            (f.PUTS_FAILED, node, counters.failed_count),
            (f.PUT_SECONDS, node, round(times.total_s, 6)),
            (f.PUTS, node, times.count),
            (f.PULLS_MISSED, node, parts.progress.missed),
            (f.LOOP_BLOCKED, node, pressure.watch.count),
            (f.LOOP_BLOCKED_MAX, node, round(pressure.watch.max_s, 6)),
            (f.LARGE_FRAMES, node, pressure.budget.size),
            (f.SLOW_READERS, node, pressure.slow_readers.count),
            (f.SLOW_READERS_UNSENT, node, pressure.slow_readers.size),
            (f.BUSY_REFUSALS, node, pressure.backlog.refused_count),
            (f.RATE_REFUSALS, node, parts.rate_limits.refused_count),
            (f.ACCESS_REFUSALS, node, self._metering.access_refusals),
            (f.HELD_SENDERS, node, pressure.backlog.held_count),
            (f.DISK_USED, node, round(use.used_percent / 100, 6)),
            (f.DISK_FREE, node, use.free),
            (f.WRITABLE, node, 0 if store.disk.refusal else 1),
            (f.DAMAGED, node, len(store.damaged)),
            (f.QUEUE_LOGS, node, len(store.logs.table)),
        )
        yield 1
        yield from self._of_logs(out, store)
        yield from self._timers(out, parts)

    def _timers(self, out: Exposition, parts: BrokerParts) -> Iterator[int]:
        timers, storage = parts.schedule.timers.delivery, self._storage
        due_ms, now_ms = timers.index.next_ms(), self._clock.now_ms()
        self._write(
            out,
            (f.TIMER_ENQUEUE_LAG, storage, timers.behind_count),
            (f.TIMER_ENQUEUE_LATENCY, storage, timers.behind_ms),
            (f.TIMER_DEQUEUE_LAG, storage, len(timers.index)),
            (f.TIMER_DEQUEUE_LATENCY, storage, 0 if due_ms is None else max(now_ms - due_ms, 0)),
        )
        counts = [0] * len(BOUNDS_S)
        yield from snapshot(timers.index, now_ms, counts)
        out.begin(f.TIMER_SNAPSHOT)
        for bound_s, count in zip(BOUNDS_S, counts, strict=True):
            out.sample(with_label(storage, "timer_bound_s", bound_s), count)
        yield len(counts)

    def _of_logs(self, out: Exposition, store: MessageStore) -> Iterator[int]:
        """Writes what goes over all logs: the unflushed bytes, and the age of the oldest message.

        A segment is created for its first message. Of a log at rest only the time of its last
        message is known, but for that with the oldest last message, which is opened.
        """
        unflushed = 0
        for grown in portions(store.committer.unsynced, LOGS_PER_SLICE):
            unflushed += sum(q.written_position - q.synced_position for q in grown)
            yield LOGS_PER_SLICE
        topics = store.logs.table.topics()
        turns = [self._turn % TURNS] if self._oldest_of_turns else range(TURNS)
        for turn in turns:
            oldest: tuple[int, str, int] | None = None
            rows = chain.from_iterable(
                list(store.logs.table.of_topic(topic).values()) for topic in topics[turn::TURNS]
            )
            while known := list(islice(rows, LOGS_PER_SLICE)):
                times = [(_oldest_ms(store.logs, row), row.topic, row.queue_id) for row in known]
                oldest = min([*([oldest] if oldest else []), *(t for t in times if t[0] > 0)],
                             default=None)  # fmt: skip
                yield LOGS_PER_SLICE
            self._oldest_of_turns[turn] = oldest
        self._turn += 1
        now_ms = self._clock.now_ms()
        found = min((one for one in self._oldest_of_turns.values() if one), default=None)
        if found is not None:
            row = store.logs.table.get(*found[1:])
            if row is not None:
                store.logs.readable_log(row)
                found = (_oldest_ms(store.logs, row), *found[1:])
        self._write(
            out,
            (f.FLUSH_BEHIND, self._storage, unflushed),
            (f.RESERVE_TIME, self._storage, 0 if found is None else max(now_ms - found[0], 0)),
        )

    def redrives(self, out: Exposition, redrives: Redrives) -> Iterator[int]:
        """Writes what became of dead letters; yields the work."""
        out.begin(f.REDRIVEN)
        for (group, outcome), count in sorted(redrives.outcomes().items()):
            labels = with_label(self._node, "consumer_group", group)
            out.sample(with_label(labels, "outcome", outcome), count)
            yield 1

    def conflicts(self, out: Exposition, parts: BrokerParts) -> Iterator[int]:
        """Writes the groups whose members subscribe differently; yields the work."""
        out.begin(f.CONFLICTS)
        for name, group in list(parts.members.consumers):
            if group.conflicts.differ:
                labels = with_label(self._node, "consumer_group", name)
                out.sample(labels, group.conflicts.count)
            yield 1

    def of_process(self, out: Exposition, *, is_serving: bool) -> Iterator[int]:
        """Writes what a broker tells in any role; yields the work."""
        node, process = self._node, self._process
        self._write(
            out,
            (f.SERVING, node, int(is_serving)),
            (f.BUILD, with_label(node, "version", VERSION), 1),
        )
        server, broker_set = process.server(), process.broker_set()
        if server is not None:
            self._write(
                out,
                (f.CONNECTIONS, node, len(server.connections)),
                (f.CONNECTIONS_REFUSED, node, server.refused_count),
            )
            write_expiry(out, node, server.certificate_expires_ms)
        if broker_set is not None:
            self._replication(out, broker_set)
        yield 1

    def _replication(self, out: Exposition, broker_set: BrokerSet) -> None:
        node, leading = self._node, broker_set.leading
        self._write(out, (f.LEADS, node, int(leading is not None)))
        if leading is None:
            self._write(out, (f.CAUGHT_UP, node, int(broker_set.has_caught_up)))
            return
        self._write(
            out,
            (f.IN_SYNC, node, leading.in_sync_count),
            (f.EPOCH, node, leading.state.epoch),
        )
        peers = [
            (with_label(node, "member_id", peer.member_id), peer)
            for peer in leading.leader.peers.values()
        ]
        out.begin(f.REPLICA_IN_STEP)
        for labels, peer in peers:
            out.sample(labels, int(peer.is_live))
        out.begin(f.REPLICA_BEHIND)
        for labels, peer in peers:
            if peer.is_live:  # else it would be a look at every log
                out.sample(labels, peer.behind_size)


def _oldest_ms(logs: QueueLogs, row: KnownLog) -> int:
    """When the oldest message of a log was stored, as far as that is known; 0 without any."""
    queue_log = logs.peek(row.topic, row.queue_id)
    if queue_log is not None:
        return queue_log.segments[0].created_ms if queue_log.size else 0
    return row.checkpoint.timestamp if row.checkpoint else 0
