"""The metrics of a broker: RocketMQ 5's in their scraped form, and its own (`pocketmq_`)."""

from __future__ import annotations

from pocketmq.runtime.metrics.exposition import Family, Kind


def _gauge(name: str, text: str) -> Family:
    return Family(name, Kind.GAUGE, text)


def _counter(name: str, text: str) -> Family:
    return Family(name, Kind.COUNTER, text)


def _histogram(name: str, bounds: tuple[float, ...], text: str) -> Family:
    return Family(name, Kind.HISTOGRAM, text, bounds)


_KIB, _MIB = 1024, 1024 * 1024
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86_400
_CREATION_MS = (10, 100, 1000, 3000, 5000)

MESSAGES_IN = _counter("rocketmq_messages_in_total", "Messages stored, by topic")
THROUGHPUT_IN = _counter("rocketmq_throughput_in_total", "Bytes stored, by topic")
MESSAGE_SIZE = _histogram(
    "rocketmq_message_size", (_KIB, 4 * _KIB, 512 * _KIB, _MIB, 2 * _MIB, 4 * _MIB),
    "Bytes of the records of stored messages, by topic",
)  # fmt: skip
MESSAGES_OUT = _counter("rocketmq_messages_out_total", "Messages given to a group, by topic")
THROUGHPUT_OUT = _counter("rocketmq_throughput_out_total", "Bytes given to a group, by topic")
DEAD_LETTERS = _counter("rocketmq_send_to_dlq_messages_total", "Messages that a group has given up")

LAG = _gauge("rocketmq_consumer_lag_messages", "Messages that a group has not acknowledged")
READY = _gauge("rocketmq_consumer_ready_messages", "Messages that a group has not been given yet")
IN_FLIGHT = _gauge(
    "rocketmq_consumer_inflight_messages", "Messages given to a group and not acknowledged"
)
LAG_LATENCY = _gauge(
    "rocketmq_consumer_lag_latency_milliseconds",
    "Age of the oldest message that a group has not acknowledged",
)
QUEUEING_LATENCY = _gauge(
    "rocketmq_consumer_queueing_latency_milliseconds",
    "Age of the oldest message that a group has not been given yet",
)

PRODUCER_CONNECTIONS = _gauge("rocketmq_producer_connections", "Living producers")
CONSUMER_CONNECTIONS = _gauge("rocketmq_consumer_connections", "Living consumers of a group")
TOPIC_NUMBER = _gauge("rocketmq_topic_number", "Topics")
GROUP_NUMBER = _gauge("rocketmq_consumer_group_number", "Consumer groups")
TOPIC_CREATION = _histogram(
    "rocketmq_topic_create_execution_time_milliseconds", _CREATION_MS,
    "Time that requests to create or change topics took",
)  # fmt: skip
GROUP_CREATION = _histogram(
    "rocketmq_consumer_group_create_execution_time_milliseconds", _CREATION_MS,
    "Time that requests to create or change groups took",
)  # fmt: skip
PERMISSION = _gauge("rocketmq_broker_permission", "Permission of the broker: 2 writes, 4 reads")

STORAGE_SIZE = _gauge("rocketmq_storage_size_bytes", "Bytes that the disk has in use")
FLUSH_BEHIND = _gauge(
    "rocketmq_storage_flush_behind_bytes", "Bytes of messages not known to be on the disk"
)
DISPATCH_BEHIND = _gauge(
    "rocketmq_storage_dispatch_behind_bytes", "Always 0: each commit writes the index, too"
)
RESERVE_TIME = _gauge(
    "rocketmq_storage_message_reserve_time_milliseconds", "Age of the oldest message"
)
TIMING = _gauge("rocketmq_timing_messages", "Timer messages that wait, by their topic")
TIMER_ENQUEUE_LAG = _gauge(
    "rocketmq_timer_enqueue_lag", "Timer messages that are not in the index of times yet"
)
TIMER_ENQUEUE_LATENCY = _gauge(
    "rocketmq_timer_enqueue_latency_milliseconds",
    "Age of the oldest timer message that is not in the index of times yet",
)
TIMER_DEQUEUE_LAG = _gauge("rocketmq_timer_dequeue_lag", "Timer messages in the index of times")
TIMER_SNAPSHOT = _gauge(
    "rocketmq_timer_message_snapshot",
    "Timer messages due within timer_bound_s seconds, but not within the bound before",
)
TIMER_ENQUEUED = _counter("rocketmq_timer_enqueue_total", "Timer messages taken, by their topic")
TIMER_DEQUEUED = _counter(
    "rocketmq_timer_dequeue_total", "Timer messages delivered, by their topic"
)
DELAY_LATENCY = _histogram(
    "rocketmq_delay_message_latency_seconds",
    (_MINUTE_S, 10 * _MINUTE_S, _HOUR_S, 12 * _HOUR_S, _DAY_S, 3 * _DAY_S),
    "Delays that timer messages ask for, by their topic",
)
TIMER_DEQUEUE_LATENCY = _gauge(
    "rocketmq_timer_dequeue_latency_milliseconds", "How late the next timer message is"
)
DELAYED = _gauge("pocketmq_delayed_messages", "Delayed and timer messages that wait")
HALF = _gauge(
    "rocketmq_half_messages", "Half messages that are neither committed nor rolled back, by topic"
)
COMMITTED = _counter("rocketmq_commit_messages_total", "Half messages committed, by topic")
ROLLED_BACK = _counter("rocketmq_rollback_messages_total", "Half messages rolled back, by topic")
FINISH_LATENCY = _histogram(
    "rocketmq_finish_message_latency_milliseconds",
    (5, _MINUTE_S, 10 * _MINUTE_S, _HOUR_S, 12 * _HOUR_S, _DAY_S),
    "Age of half messages when they are committed, in seconds as RocketMQ counts it",
)

POP_ACKED = _counter(
    "pocketmq_pop_acknowledged_messages_total", "Popped messages that a group has acknowledged"
)
POP_REVIVED = _counter(
    "pocketmq_pop_revived_messages_total", "Popped messages that were not acknowledged in time"
)
REDRIVEN = _counter(
    "pocketmq_redrive_messages_total", "Dead letters that redrives were done with, by outcome"
)
CONFLICTS = _gauge(
    "pocketmq_subscription_conflicts", "Different subscriptions of a group's members"
)
ACCESS_REFUSALS = _counter(
    "pocketmq_access_refusals_total", "Requests refused for who asked (NO_PERMISSION)"
)
CONNECTIONS_REFUSED = _counter(
    "pocketmq_refused_connections_total", "Connections closed at once: too many are open"
)
POP_IN_FLIGHT = _gauge("pocketmq_pop_inflight_messages", "Popped messages, of all groups")
HELD_PULLS = _gauge("pocketmq_held_pulls", "Pulls that wait for a message")
HELD_POPS = _gauge("pocketmq_held_pops", "Pops that wait for a message")
CONNECTIONS = _gauge("pocketmq_connections", "Open connections")
PUTS_FAILED = _counter("pocketmq_puts_failed_total", "Sends that the store has refused")
PUT_SECONDS = _counter("pocketmq_put_seconds_total", "Seconds that senders waited for the store")
PUTS = _counter("pocketmq_put_requests_total", "Sends that waited for the store")
PULLS_MISSED = _counter("pocketmq_pulls_missed_total", "Pulls answered without messages")
LOOP_BLOCKED = _counter("pocketmq_loop_blocked_total", "Blockages of the event loop beyond 50 ms")
LOOP_BLOCKED_MAX = _gauge("pocketmq_loop_blocked_max_seconds", "The longest blockage")
LARGE_FRAMES = _gauge("pocketmq_large_frames_bytes", "Bytes of large requests under way")
SLOW_READERS = _gauge("pocketmq_slow_readers", "Clients that do not read their answers in time")
SLOW_READERS_UNSENT = _gauge("pocketmq_slow_readers_unsent_bytes", "Bytes that wait for them")
BUSY_REFUSALS = _counter("pocketmq_busy_refusals_total", "Sends refused as busy (2)")
RATE_REFUSALS = _counter("pocketmq_rate_refusals_total", "Requests refused by a rate")
HELD_SENDERS = _gauge("pocketmq_held_senders", "Connections not read from until the disk is done")
DISK_USED = _gauge("pocketmq_disk_used_ratio", "Used part of the disk")
DISK_FREE = _gauge("pocketmq_disk_free_bytes", "Free bytes of the disk")
WRITABLE = _gauge("pocketmq_writable", "1 if messages are taken, 0 if the disk is full or fails")
DAMAGED = _gauge("pocketmq_damaged_queues", "Queues that are not served until they are repaired")
QUEUE_LOGS = _gauge("pocketmq_queue_logs", "Queues that hold or held messages")
SERVING = _gauge("pocketmq_serving", "1 if it answers clients: alone, or as leader of its set")
IN_SYNC = _gauge("pocketmq_in_sync_members", "Members of the in-sync set, the leader among them")
LEADS = _gauge("pocketmq_leads", "1 if this member leads its broker set, 0 if it follows")
EPOCH = _gauge("pocketmq_replication_epoch", "How often the broker set has changed its leader")
CAUGHT_UP = _gauge(
    "pocketmq_replication_caught_up", "1 if this follower has all that its leader had as it joined"
)
REPLICA_BEHIND = _gauge(
    "pocketmq_replica_behind_bytes", "Bytes that a follower has not acknowledged yet"
)
REPLICA_IN_STEP = _gauge(
    "pocketmq_replica_in_step", "1 if a follower gets each commit, 0 while it catches up"
)
QUEUE_MIN = _gauge("pocketmq_queue_min_offset", "Offset of the oldest message of a queue")
QUEUE_MAX = _gauge("pocketmq_queue_max_offset", "Offset behind the newest message of a queue")
QUEUE_OFFSET = _gauge("pocketmq_queue_consumer_offset", "Offset that a group has committed")
QUEUE_LAG = _gauge("pocketmq_queue_lag_messages", "Messages of a queue that a group lacks")

TRUNCATED = _gauge(
    "pocketmq_metrics_truncated", "Series left out of a metric because of metricsMaxSeries"
)
BUILD = _gauge("pocketmq_build_info", "1, with the version as label")
SCRAPE_SECONDS = _gauge("pocketmq_scrape_duration_seconds", "Seconds that this scrape took")

ALL: tuple[Family, ...] = tuple(
    found for found in list(globals().values()) if isinstance(found, Family)
)
"""All of them."""
