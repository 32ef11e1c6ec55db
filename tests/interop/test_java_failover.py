"""Apache's clients, unmodified, on a broker set of two whose leader changes again and again."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from support.commands.here import ok, pocketmq
from support.interop.clusters import Cluster, broker_set
from support.interop.java_probe import JavaProbe

pytestmark = [pytest.mark.interop, pytest.mark.whole_interop, pytest.mark.timeout(600)]

SETTINGS: dict[str, Any] = {
    "slaveReadEnable": True,
    "accessMessageInMemoryMaxRatio": 0,  # whoever is not at the end reads from the follower
    "messageDelayLevel": "1s 1s 1s",
    "transactionCheckInterval": 1000,
}
MESSAGES = 200
SWITCHES_MAX = 5
TRIES_MAX = 200


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with broker_set(tmp_path_factory.mktemp("set"), **SETTINGS) as running:
        yield running


@pytest.fixture(scope="module")
def seen(probe: JavaProbe, pair: Cluster) -> dict[str, Any]:
    """What the clients saw, and how many times another member led meanwhile."""
    name = f"failover-{uuid.uuid4().hex[:8]}"
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(
            probe.run, "failover", namesrv=pair.namesrv, topic=name, group=name,
            messages=MESSAGES, deadline_s=240,
        )  # fmt: skip
        while not running.done() and name not in _topics(pair):
            pass
        switches = 0
        while switches < SWITCHES_MAX and not running.done():
            switches += not pocketmq("broker", "switch", "--namesrv", pair.namesrv).returncode
        seen: dict[str, Any] = running.result()
    return {**seen, "switches": switches}


def _topics(pair: Cluster) -> str:
    return ok("topic", "list", "--namesrv", pair.namesrv)


def keys(deliveries: list[dict[str, Any]]) -> list[int]:
    return [int(one["message"]["keys"]) for one in deliveries]


def test_every_message_arrives_in_both_groups(seen: dict[str, Any]) -> None:
    assert seen["switches"] >= 2
    for group in ("orderly", "plain"):
        assert set(keys(seen[group])) == set(range(MESSAGES))


def test_the_order_holds(seen: dict[str, Any]) -> None:
    """Of those that were sent at once; delayed ones and transactions come when they are due."""
    first_times = dict.fromkeys(keys(seen["orderly"]))
    at_once = [number for number in first_times if number % 10 not in (3, 6)]
    assert at_once == sorted(at_once)


def test_messages_that_failed_come_again_once(seen: dict[str, Any]) -> None:
    retried = [one for one in seen["plain"] if int(one["message"]["keys"]) % 10 == 9]
    assert all(one["message"]["reconsumeTimes"] >= 1 for one in retried)


def _follower_total(pair: Cluster) -> int:
    """Messages that were read from the follower."""
    for _ in range(TRIES_MAX):
        rows = json.loads(ok("cluster", "list", "-o", "json", "--namesrv", pair.namesrv))
        totals = [row["getTotal"] for row in rows if row["brokerId"]]
        if totals:
            return int(totals[0])
    raise AssertionError(rows)


def test_a_consumer_far_behind_reads_from_the_follower(
    probe: JavaProbe, pair: Cluster, seen: dict[str, Any]
) -> None:
    assert seen["sent"] == MESSAGES
    ok("topic", "create", "Backlog", "--queues", "1", "--namesrv", pair.namesrv)
    lines = "\n".join(map(str, range(MESSAGES)))
    ok("produce", "Backlog", "--namesrv", pair.namesrv, stdin=lines)
    before = _follower_total(pair)
    read = probe.run("pull", namesrv=pair.namesrv, topic="Backlog", group="behind", expect=MESSAGES)
    (queue,) = read["queues"]
    offsets = [message["queueOffset"] for message in queue["messages"]]
    assert offsets == list(range(MESSAGES))
    assert _follower_total(pair) - before >= MESSAGES // 2
