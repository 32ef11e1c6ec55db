"""Measures the fixtures: how soon a cluster is ready, and what tests on it take.

    python bench/testing.py

Prints a line of JSON, milliseconds of wall-clock time: a cluster's start and end, the corner of a
test, 200 tests that each have topics of their own and send and read a message, and a delay of two
hours, sixteen retries to the dead letters, and a transaction that is checked.
"""

from __future__ import annotations

import json
import logging
import time
from typing import Any

from pocketmq.client import ConsumeResult, LocalTransactionState, Message
from pocketmq.testing import Cluster
from pocketmq.testing.clusters import Clusters

TESTS = 200
TOPICS = {"topics": {"Orders": 2}, "groups": ["billing"]}


class Unsure:
    """A transaction listener that knows at the first question."""

    def execute_local_transaction(self, message: Any, arg: Any) -> LocalTransactionState:
        return LocalTransactionState.UNKNOWN

    def check_local_transaction(self, message: Any) -> LocalTransactionState:
        return LocalTransactionState.COMMIT


def round_trip(cluster: Cluster) -> None:
    with cluster.producer() as producer:
        producer.send(Message("Orders", b"x"))
    assert len(cluster.published("Orders")) == 1


def two_hours(cluster: Cluster) -> None:
    with cluster.producer() as producer:
        producer.send(Message("Orders", b"x", delay_ms=7_200_000))
    cluster.clock.advance(hours=2)
    assert len(cluster.published("Orders")) == 1


def sixteen_retries(cluster: Cluster) -> None:
    with (
        cluster.push_consumer("billing", listener=lambda _: ConsumeResult.RETRY) as consumer,
        cluster.producer() as producer,
    ):
        consumer.subscribe("Orders")
        producer.send(Message("Orders", b"x"))
        cluster.published("Orders", 1)
        cluster.clock.advance(hours=5)
        assert len(cluster.dead_letters("billing")) == 1


def transaction(cluster: Cluster) -> None:
    with cluster.transaction_producer("shop", listener=Unsure()) as producer:
        producer.send_in_transaction(Message("Orders", b"x"))
        cluster.clock.advance(minutes=1)
    assert len(cluster.published("Orders")) == 1


def timed_ms(function: Any, *args: Any) -> float:
    began = time.perf_counter()
    function(*args)
    return round((time.perf_counter() - began) * 1000, 1)


def in_corner(clusters: Clusters, test: Any) -> None:
    corner = clusters.corner(TOPICS, is_async=False)
    test(corner.cluster)
    corner.clean()


def main() -> None:
    logging.disable(logging.WARNING)
    figures: dict[str, float] = {}
    with Clusters() as clusters:
        figures["start"] = timed_ms(clusters.of, {})
        figures["corner"] = timed_ms(in_corner, clusters, lambda _: None)
        for test in (round_trip, two_hours, sixteen_retries, transaction):
            figures[test.__name__] = timed_ms(in_corner, clusters, test)
        began = time.perf_counter()
        for _ in range(TESTS):
            in_corner(clusters, round_trip)
        figures[f"{TESTS} tests"] = round((time.perf_counter() - began) * 1000, 1)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
