"""Makes the dashboards for Grafana and the alert rules for Prometheus, beside this file.

``python deploy/grafana/make.py``; a test says when the files are stale.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
SOURCE = {"type": "prometheus", "uid": "${DS_PROMETHEUS}"}
OF_NODE = 'cluster=~"$cluster",node_id=~"$node"'
OF_TOPIC = OF_NODE + ',topic=~"$topic"'
OF_GROUP = OF_TOPIC + ',consumer_group=~"$group"'
COLUMNS, WIDTH, HEIGHT = 2, 12, 8


class Panel(NamedTuple):
    """A picture of a dashboard.

    Attributes:
        title: above it.
        expression: in PromQL.
        legend: of each line.
        unit: as Grafana names it.
    """

    title: str
    expression: str
    legend: str
    unit: str = "short"


class Alert(NamedTuple):
    """A rule that Prometheus tells of."""

    name: str
    expression: str
    lasts: str
    severity: str
    summary: str


def rate(name: str, labels: str, by: str) -> str:
    """Returns the growth of a counter a second."""
    return f"sum by ({by}) (rate({name}{{{labels}}}[$__rate_interval]))"


def total(name: str, labels: str, by: str, how: str = "sum") -> str:
    """Returns a gauge, summed up."""
    return f"{how} by ({by}) ({name}{{{labels}}})"


def quantile(share: float, histogram: str, labels: str, by: str) -> str:
    """Returns the value below which a share of what a histogram counts lies."""
    return f"histogram_quantile({share}, {rate(f'{histogram}_bucket', labels, f'{by}, le')})"


SENDS = 'request_code=~"send_message.*|send_batch_message"'
NOT_HELD = ',is_long_polling="false"'

PAIR, BOTH = "consumer_group, topic", "{{consumer_group}} {{topic}}"
NODE = "{{node_id}}"

DASHBOARDS: dict[str, tuple[str, list[Panel]]] = {
    "overview": ("PocketMQ: cluster", [
        Panel("Messages in", rate("rocketmq_messages_in_total", OF_NODE, "node_id"), NODE, "mps"),
        Panel("Messages out", rate("rocketmq_messages_out_total", OF_NODE, "node_id"), NODE, "mps"),
        Panel("Bytes in", rate("rocketmq_throughput_in_total", OF_NODE, "node_id"), NODE, "Bps"),
        Panel("Bytes out", rate("rocketmq_throughput_out_total", OF_NODE, "node_id"), NODE, "Bps"),
        Panel("Lag", total("rocketmq_consumer_lag_messages", OF_NODE, "node_id"), NODE),
        Panel("Connections", total("pocketmq_connections", OF_NODE, "node_id"), NODE),
        Panel("Topics", total("rocketmq_topic_number", OF_NODE, "node_id"), NODE),
        Panel("Groups", total("rocketmq_consumer_group_number", OF_NODE, "node_id"), NODE),
        Panel("Serving", total("pocketmq_serving", OF_NODE, "node_id"), NODE),
        Panel("Series left out", total("pocketmq_metrics_truncated", OF_NODE, "family"),
              "{{family}}"),
    ]),
    "topics": ("PocketMQ: topics", [
        Panel("Messages in", rate("rocketmq_messages_in_total", OF_TOPIC, "topic"), "{{topic}}",
              "mps"),
        Panel("Bytes in", rate("rocketmq_throughput_in_total", OF_TOPIC, "topic"), "{{topic}}",
              "Bps"),
        Panel("Messages out", rate("rocketmq_messages_out_total", OF_GROUP, PAIR), BOTH, "mps"),
        Panel("Bytes out", rate("rocketmq_throughput_out_total", OF_GROUP, PAIR), BOTH, "Bps"),
        Panel("Producers", total("rocketmq_producer_connections", OF_NODE, "language, version"),
              "{{language}} {{version}}"),
        Panel("99 % of the messages are smaller",
              quantile(0.99, "rocketmq_message_size", OF_TOPIC, "topic"), "{{topic}}", "bytes"),
        Panel("Timers, by when they are due", total("rocketmq_timer_message_snapshot", OF_NODE,
              "timer_bound_s"), "within {{timer_bound_s}} s"),
        Panel("Timers delivered", rate("rocketmq_timer_dequeue_total", OF_TOPIC, "topic"),
              "{{topic}}", "mps"),
        Panel("Committed transactions", rate("rocketmq_commit_messages_total", OF_TOPIC, "topic"),
              "{{topic}}", "mps"),
        Panel("Rolled back", rate("rocketmq_rollback_messages_total", OF_TOPIC, "topic"),
              "{{topic}}", "mps"),
        Panel("Delayed", total("pocketmq_delayed_messages", OF_NODE, "node_id"), NODE),
    ]),
    "groups": ("PocketMQ: consumer groups", [
        Panel("Lag", total("rocketmq_consumer_lag_messages", OF_GROUP, PAIR), BOTH),
        Panel("Ready", total("rocketmq_consumer_ready_messages", OF_GROUP, PAIR), BOTH),
        Panel("In flight", total("rocketmq_consumer_inflight_messages", OF_GROUP, PAIR), BOTH),
        Panel("Age of the oldest message", total("rocketmq_consumer_lag_latency_milliseconds",
              OF_GROUP, PAIR, "max"), BOTH, "ms"),
        Panel("Wait before it is given", total("rocketmq_consumer_queueing_latency_milliseconds",
              OF_GROUP, PAIR, "max"), BOTH, "ms"),
        Panel("Consumers", total("rocketmq_consumer_connections",
              OF_NODE + ',consumer_group=~"$group"', "consumer_group, consume_mode"),
              "{{consumer_group}} {{consume_mode}}"),
        Panel("Dead letters", rate("rocketmq_send_to_dlq_messages_total",
              OF_NODE + ',consumer_group=~"$group"', "consumer_group"), "{{consumer_group}}",
              "mps"),
        Panel("Acknowledged pops", rate("pocketmq_pop_acknowledged_messages_total", OF_GROUP,
              PAIR), BOTH, "mps"),
        Panel("Pops that were not acknowledged in time",
              rate("pocketmq_pop_revived_messages_total", OF_NODE, "node_id"), NODE, "mps"),
        Panel("Redriven dead letters", rate("pocketmq_redrive_messages_total",
              OF_NODE + ',consumer_group=~"$group"', "consumer_group, outcome"),
              "{{consumer_group}} {{outcome}}", "mps"),
        Panel("Different subscriptions in a group", total("pocketmq_subscription_conflicts",
              OF_NODE + ',consumer_group=~"$group"', "consumer_group", "max"),
              "{{consumer_group}}"),
        Panel("Popped and not acknowledged",
              total("pocketmq_pop_inflight_messages", OF_NODE, "node_id"), NODE),
    ]),
    "brokers": ("PocketMQ: brokers", [
        Panel("Mean wait of a send",
              rate("pocketmq_put_seconds_total", OF_NODE, "node_id") + " / "
              + rate("pocketmq_put_requests_total", OF_NODE, "node_id"), NODE, "s"),
        Panel("99 % of the requests are answered within",
              quantile(0.99, "rocketmq_rpc_latency_milliseconds", OF_NODE + NOT_HELD,
                       "node_id, request_code"), "{{node_id}} {{request_code}}", "ms"),
        Panel("Answers by code", rate("rocketmq_rpc_latency_milliseconds_count", OF_NODE,
              "request_code, response_code"), "{{request_code}} {{response_code}}", "reqps"),
        Panel("Blockages of the loop", rate("pocketmq_loop_blocked_total", OF_NODE, "node_id"),
              NODE),
        Panel("Refused as busy", rate("pocketmq_busy_refusals_total", OF_NODE, "node_id"), NODE),
        Panel("Refused by a rate", rate("pocketmq_rate_refusals_total", OF_NODE, "node_id"), NODE),
        Panel("Refused for who asked", rate("pocketmq_access_refusals_total", OF_NODE, "node_id"),
              NODE),
        Panel("Connections refused", rate("pocketmq_refused_connections_total", OF_NODE,
              "node_id"), NODE),
        Panel("Slow readers", total("pocketmq_slow_readers", OF_NODE, "node_id"), NODE),
        Panel("Held senders", total("pocketmq_held_senders", OF_NODE, "node_id"), NODE),
        Panel("Disk used", total("pocketmq_disk_used_ratio", OF_NODE, "node_id", "max"), NODE,
              "percentunit"),
        Panel("Not on the disk yet", total("rocketmq_storage_flush_behind_bytes", OF_NODE,
              "node_id"), NODE, "bytes"),
        Panel("Timers", total("rocketmq_timing_messages", OF_NODE, "node_id"), NODE),
        Panel("Lateness of timers", total("rocketmq_timer_dequeue_latency_milliseconds", OF_NODE,
              "node_id", "max"), NODE, "ms"),
        Panel("Open half messages", total("rocketmq_half_messages", OF_NODE, "node_id"), NODE),
        Panel("Members in sync", total("pocketmq_in_sync_members", OF_NODE, "node_id"), NODE),
        Panel("Bytes that followers lack", total("pocketmq_replica_behind_bytes", OF_NODE,
              "node_id, member_id", "max"), "{{node_id}} {{member_id}}", "bytes"),
        Panel("Followers that get each commit", total("pocketmq_replica_in_step", OF_NODE,
              "node_id"), NODE),
        Panel("Certificates are valid for",
              f"min by (node_id) (pocketmq_certificate_expiry_timestamp_seconds{{{OF_NODE}}}) "
              "- time()", NODE, "s"),
        Panel("Age of the oldest message",
              total("rocketmq_storage_message_reserve_time_milliseconds", OF_NODE, "node_id",
                    "max"), NODE, "ms"),
        Panel("Damaged queues", total("pocketmq_damaged_queues", OF_NODE, "node_id"), NODE),
        Panel("Duration of a scrape", total("pocketmq_scrape_duration_seconds", OF_NODE, "node_id",
              "max"), NODE, "s"),
    ]),
}  # fmt: skip

ALERTS = [
    Alert("PocketMQRefusesSends", "pocketmq_writable == 0", "1m", "critical",
          "{{ $labels.node_id }} takes no messages: its disk is full or fails"),
    Alert("PocketMQDiskFills", "pocketmq_disk_used_ratio > 0.8", "10m", "warning",
          "the disk of {{ $labels.node_id }} is 80 % full; from 85 % old messages go"),
    Alert("PocketMQDamagedQueues", "pocketmq_damaged_queues > 0", "1m", "critical",
          "{{ $labels.node_id }} does not serve some queues: run pocketmq store check"),
    Alert("PocketMQGroupLate", "max by (cluster, consumer_group, topic) "
          "(rocketmq_consumer_lag_latency_milliseconds) > 600000", "10m", "warning",
          "{{ $labels.consumer_group }} is 10 minutes behind in {{ $labels.topic }}"),
    Alert("PocketMQDeadLetters", "increase(rocketmq_send_to_dlq_messages_total[15m]) > 0", "0m",
          "warning", "{{ $labels.consumer_group }} gives messages up: see pocketmq dlq"),
    Alert("PocketMQLoopBlocked", "rate(pocketmq_loop_blocked_total[5m]) > 0.2", "5m", "warning",
          "{{ $labels.node_id }} makes its clients wait: its log names what blocks it"),
    Alert("PocketMQBusy", "rate(pocketmq_busy_refusals_total[5m]) > 0", "5m", "warning",
          "{{ $labels.node_id }} refuses sends as busy"),
    Alert("PocketMQNotReplicated", "pocketmq_in_sync_members < 2", "5m", "warning",
          "only the leader of {{ $labels.node_id }} has the newest messages"),
    Alert("PocketMQFollowerBehind", "pocketmq_replica_behind_bytes > 67108864", "5m", "warning",
          "member {{ $labels.member_id }} of {{ $labels.node_id }} lacks 64 MiB"),
    Alert("PocketMQFollowerCatchesUp", "pocketmq_replica_in_step == 0", "30m", "warning",
          "member {{ $labels.member_id }} of {{ $labels.node_id }} did not catch up in 30 minutes"),
    Alert("PocketMQSlowSends", "histogram_quantile(0.99, sum by (node_id, le) "
          f"(rate(rocketmq_rpc_latency_milliseconds_bucket{{{SENDS}}}[5m]))) > 1000", "10m",
          "warning", "one of a hundred sends to {{ $labels.node_id }} waits for over a second"),
    Alert("PocketMQCertificateExpires",
          "pocketmq_certificate_expiry_timestamp_seconds - time() < 14 * 86400", "1h", "warning",
          "the certificate of {{ $labels.instance }} expires within 14 days"),
    Alert("PocketMQCertificateExpiresSoon",
          "pocketmq_certificate_expiry_timestamp_seconds - time() < 3 * 86400", "10m", "critical",
          "the certificate of {{ $labels.instance }} expires within 3 days"),
    Alert("PocketMQSubscriptionsDiffer", "pocketmq_subscription_conflicts > 1", "5m", "warning",
          "members of {{ $labels.consumer_group }} subscribe differently, and lose messages"),
    Alert("PocketMQConnectionsRefused", "increase(pocketmq_refused_connections_total[5m]) > 0",
          "0m", "warning", "{{ $labels.node_id }} refuses connections: too many are open"),
    Alert("PocketMQTimersLate", "rocketmq_timer_dequeue_latency_milliseconds > 60000", "5m",
          "warning", "timer messages of {{ $labels.node_id }} are a minute late"),
]  # fmt: skip


def dashboard(name: str, title: str, panels: list[Panel]) -> dict[str, Any]:
    """Returns a dashboard as Grafana imports it."""
    variables = {"cluster": "cluster", "node": "node_id", "topic": "topic"}
    variables["group"] = "consumer_group"
    of = {"topic": "rocketmq_messages_in_total", "group": "rocketmq_consumer_lag_messages"}
    return {
        "__inputs": [{"name": "DS_PROMETHEUS", "label": "Prometheus", "type": "datasource",
                      "pluginId": "prometheus"}],
        "uid": f"pocketmq-{name}", "title": title, "tags": ["pocketmq"], "schemaVersion": 39,
        "refresh": "30s", "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [
            {"name": variable, "type": "query", "datasource": SOURCE, "includeAll": True,
             "multi": True, "allValue": ".*", "refresh": 2, "current": {"text": "All",
             "value": "$__all"},
             "query": f"label_values({of.get(variable, 'pocketmq_build_info')}, {label})"}
            for variable, label in variables.items()
        ]},
        "panels": [
            {"id": number + 1, "title": panel.title, "type": "timeseries", "datasource": SOURCE,
             "gridPos": {"x": number % COLUMNS * WIDTH, "y": number // COLUMNS * HEIGHT,
                         "w": WIDTH, "h": HEIGHT},
             "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
             "targets": [{"refId": "A", "datasource": SOURCE, "expr": panel.expression,
                          "legendFormat": panel.legend}]}
            for number, panel in enumerate(panels)
        ],
    }  # fmt: skip


def files() -> dict[str, str]:
    """Returns the text of each file by name; JSON is YAML, too, which Prometheus reads."""
    made = {
        f"{name}.json": json.dumps(dashboard(name, title, panels), indent=1) + "\n"
        for name, (title, panels) in DASHBOARDS.items()
    }
    rules = [
        {"alert": a.name, "expr": a.expression, "for": a.lasts, "labels": {"severity": a.severity},
         "annotations": {"summary": a.summary}}
        for a in ALERTS
    ]  # fmt: skip
    groups = {"groups": [{"name": "pocketmq", "rules": rules}]}
    return made | {"alerts.yml": json.dumps(groups, indent=1) + "\n"}


if __name__ == "__main__":
    for name, text in files().items():
        (HERE / name).write_text(text, encoding="utf-8")
