"""The metrics of a broker: RocketMQ 5's in their scraped form, and its own (`pocketmq_`)."""

from __future__ import annotations

from pocketmq.runtime.metrics.exposition import Family, Kind


def _gauge(name: str, text: str) -> Family:
    return Family(name, Kind.GAUGE, text)


def _counter(name: str, text: str) -> Family:
    return Family(name, Kind.COUNTER, text)


MESSAGES_IN = _counter("rocketmq_messages_in_total", "Messages stored, by topic")
THROUGHPUT_IN = _counter("rocketmq_throughput_in_total", "Bytes stored, by topic")
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
PERMISSION = _gauge("rocketmq_broker_permission", "Permission of the broker: 2 writes, 4 reads")

STORAGE_SIZE = _gauge("rocketmq_storage_size_bytes", "Bytes that the disk has in use")
FLUSH_BEHIND = _gauge(
    "rocketmq_storage_flush_behind_bytes", "Bytes of messages not known to be on the disk"
)
DISPATCH_BEHIND = _gauge(
    "rocketmq_storage_dispatch_behind_bytes", "Always 0: each commit writes the index, too"
)
TIMING = _gauge("rocketmq_timing_messages", "Timer messages that wait, of all topics")
TIMER_ENQUEUE_LAG = _gauge(
    "rocketmq_timer_enqueue_lag", "Timer messages that are not in the index of times yet"
)
TIMER_DEQUEUE_LATENCY = _gauge(
    "rocketmq_timer_dequeue_latency_milliseconds", "How late the next timer message is"
)
TIMER_DEQUEUED = _counter("pocketmq_timer_dequeued_messages_total", "Timer messages delivered")
DELAYED = _gauge("pocketmq_delayed_messages", "Delayed and timer messages that wait")
HALF = _gauge("rocketmq_half_messages", "Half messages that are neither committed nor rolled back")

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
