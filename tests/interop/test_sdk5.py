"""RocketMQ 5's own SDKs, over gRPC, on this project's cluster."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.interop import maven

from pocketmq.testing import Cluster, LocalCluster

PROJECT = Path(__file__).parent / "sdk5" / "java"
DEADLINE_S = 200

TOPICS: dict[str, Any] = {
    "Normal": {"queues": 2, "attributes": {"message.type": "NORMAL"}},
    "Push": {"queues": 2, "attributes": {"message.type": "NORMAL"}},
    "Ordered": {"queues": 2, "attributes": {"message.type": "FIFO"}},
    "Delayed": {"queues": 2, "attributes": {"message.type": "DELAY"}},
    "Half": {"queues": 2, "attributes": {"message.type": "TRANSACTION"}},
}
GROUPS: dict[str, Any] = {
    "push": {
        "retry_max_times": 1,
        "group_retry_policy": {
            "type": "CUSTOMIZED",
            "customizedRetryPolicy": {"next": [1000, 1000]},
        },
    },
    "ordered": {"consume_message_orderly": True},
}
SETTINGS = {"transaction_check_interval": 1000, "transaction_time_out": 1000}

pytestmark = [pytest.mark.interop, pytest.mark.whole_interop, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with LocalCluster(topics=TOPICS, groups=GROUPS, broker_settings=SETTINGS) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def classpath() -> str:
    if reason := maven.missing_tools():
        pytest.skip(reason)
    target = PROJECT / "target"
    maven.build(PROJECT, target, "dependency:copy-dependencies", "compile")
    return f"{target / 'classes'}:{target / 'dependency'}/*"


@pytest.fixture(scope="module")
def seen(cluster: Cluster, classpath: str) -> dict[str, Any]:
    """What the Java SDK has seen, over TLS as is its default."""
    command = ["java", "-Xmx512m", "-cp", classpath, "pocketmq.sdk5.Probe"]
    done = subprocess.run(
        [*command, cluster.grpc_endpoint, "tls"],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    seen: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return seen


def test_simple_consumers_get_what_they_want_and_large_bodies(seen: dict[str, Any]) -> None:
    assert seen["simple"] == ["first", f"long {4 * 1024 * 1024}"]
    assert (seen["properties"], seen["keys"]) == ({"p": "v"}, ["k1"])


def test_push_consumers_get_what_failed_again_until_it_is_a_dead_letter(
    seen: dict[str, Any], cluster: Cluster
) -> None:
    assert seen["push"] == ["m0/1", "m0/2", "m1/1", "m1/2", "m2/1", "m3/1", "m4/1"]
    assert [one.body for one in cluster.dead_letters("push")] == [b"m1"]


def test_messages_of_a_group_keep_their_order(seen: dict[str, Any]) -> None:
    assert seen["ordered"] == [f"m{number}" for number in range(6)]


def test_delayed_messages_come_then_unless_recalled(seen: dict[str, Any]) -> None:
    assert (seen["delayed"], seen["recalled"]) == (["later"], True)


def test_transactions_end_and_orphans_are_asked_about(seen: dict[str, Any]) -> None:
    assert seen["transactions"] == ["committed", "orphan"]
