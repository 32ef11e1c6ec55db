"""Measures the fixtures: how soon a cluster is ready, and what tests on it take.

    python bench/testing.py [ROUNDS]

Prints a line of JSON, milliseconds of wall-clock time and, with `cpu`, of the process's CPU time,
which tells more on a machine with other work: a cluster's start, the corner of a test, a delay of
two hours, sixteen retries to the dead letters, and a transaction that is checked, each the fastest
of the rounds; and 200 tests that each have topics of their own and send and read a message.
`bench/run.py` makes rows of it.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable
from typing import Any

from pocketmq.client import ConsumeResult, LocalTransactionState, Message
from pocketmq.testing import Cluster
from pocketmq.testing.clusters import Clusters

ROUNDS = 5
TESTS = 200
Test = Callable[[Cluster], None]
TOPICS = {"topics": {"Orders": 2}, "groups": ["billing"]}


class Unsure:
    """A transaction listener that knows at the first question."""

    def execute_local_transaction(self, message: Any, arg: Any) -> LocalTransactionState:
        return LocalTransactionState.UNKNOWN

    def check_local_transaction(self, message: Any) -> LocalTransactionState:
        return LocalTransactionState.COMMIT


def nothing(cluster: Cluster) -> None:
    """What the corner of a test takes by itself."""


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


def in_corner(clusters: Clusters, test: Test) -> None:
    corner = clusters.corner(TOPICS, is_async=False)
    assert isinstance(corner.cluster, Cluster)
    test(corner.cluster)
    corner.clean()


class Least:
    """The least time and CPU time of what is done in several ``with`` blocks."""

    def __init__(self) -> None:
        self._times_ms: list[float] = []
        self._cpu_ms: list[float] = []

    def __enter__(self) -> None:
        self._began = time.perf_counter(), time.process_time()

    def __exit__(self, *exc_info: object) -> None:
        self._times_ms.append((time.perf_counter() - self._began[0]) * 1000)
        self._cpu_ms.append((time.process_time() - self._began[1]) * 1000)

    def figures(self, name: str) -> dict[str, float]:
        return {
            f"{name}_ms": round(min(self._times_ms), 1),
            f"{name}_cpu_ms": round(min(self._cpu_ms), 1),
        }


def ready(rounds: int) -> dict[str, float]:
    least = Least()
    for _ in range(rounds):
        with Clusters() as clusters, least:
            clusters.of({})
    return least.figures("ready")


def on_a_cluster(clusters: Clusters, test: Test, rounds: int, tests: int = 1) -> dict[str, float]:
    """So many tests in a corner each."""
    least = Least()
    for _ in range(rounds):
        with least:
            for _ in range(tests):
                in_corner(clusters, test)
    return least.figures(test.__name__ if tests == 1 else "tests")


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    logging.disable(logging.WARNING)
    figures = ready(rounds)
    with Clusters() as clusters:
        for test in (nothing, round_trip, two_hours, sixteen_retries, transaction):
            figures |= on_a_cluster(clusters, test, rounds)
        figures |= on_a_cluster(clusters, round_trip, 1, TESTS)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
