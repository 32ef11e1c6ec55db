"""Apache's client for Go, unmodified, on a broker set of two whose leader changes.

The client's own limits: it asks for routes every 30 s only, whatever it is told, and its retries
follow each other at once. So after a change that lasts each send fails, and each pull, until then;
the application sends again. Nothing that was acknowledged is lost.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from support.arbiters.broker_sets import BrokerSet, broker_set
from support.interop.go_probe import GoProbe

from pocketmq.client.blocking import Admin, Producer, PullConsumer
from pocketmq.protocol.errors import PocketMQError
from pocketmq.protocol.messages.message import Message, MessageQueue

# The first run downloads the client.
pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

BETWEEN = 12
"""So many messages are stored before each change, and after the last one."""

MEMBERS = (1, 2)

Change = Callable[[BrokerSet], None]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerSet]:
    with broker_set(tmp_path_factory.mktemp("set")) as running:
        yield running


def switch(pair: BrokerSet) -> None:
    """Has the other member lead; returns when both are in sync again."""
    other = sum(MEMBERS) - pair.leader(*MEMBERS)
    pair.run_until(lambda done: not done.returncode, "broker", "switch", "--to", str(other))
    pair.wait_until_in_sync(*MEMBERS)


def switch_away_and_back(pair: BrokerSet) -> None:
    """Two changes at once: the route that the client has is right again."""
    switch(pair)
    switch(pair)


def kill(pair: BrokerSet) -> None:
    """Ends the leader's process by SIGKILL, and starts it again when the other one leads."""
    leader = pair.leader(*MEMBERS)
    pair.members[leader].stop()
    pair.leader(sum(MEMBERS) - leader)
    pair.members[leader].start()
    pair.wait_until_in_sync(*MEMBERS)


def stored(pair: BrokerSet, topic: str) -> int:
    """How many messages the topic got by now; 0 while nobody can tell."""
    try:
        with Admin(pair.namesrv) as admin:
            return sum(queue.max_offset for queue in admin.topic_stats(topic))
    except PocketMQError:
        return 0


def wait_for_messages(pair: BrokerSet, topic: str, running: Future[Any]) -> None:
    """Returns when the topic has got some more; fails when the probe does."""
    count = stored(pair, topic) + BETWEEN
    while stored(pair, topic) < count:
        assert not running.done(), running.result()


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param([switch_away_and_back], id="away-and-back"),
        pytest.param([switch, kill, switch], id="for-good", marks=pytest.mark.whole_interop),
    ],
)
def test_all_that_was_acknowledged_stays_and_arrives(
    go_probe: GoProbe, pair: BrokerSet, changes: list[Change]
) -> None:
    pair.wait_until_in_sync(*MEMBERS)
    name = f"failover-{uuid.uuid4().hex[:8]}"
    leader = pair.members[pair.leader(*MEMBERS)].address
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(
            go_probe.run, "failover", namesrv=pair.namesrv, broker=leader, topic=name, group=name
        )
        for change in changes:
            wait_for_messages(pair, name, running)
            change(pair)
        wait_for_messages(pair, name, running)
        with Producer(name, pair.namesrv) as producer:
            producer.send(Message(name, b"", keys="last"))
        seen = running.result()
    places = {one["key"]: (one["queueId"], one["queueOffset"]) for one in seen["sent"]}
    assert {one["message"]["keys"] for one in seen["deliveries"]} == {*places, "last"}
    with PullConsumer(f"{name}-reader", pair.namesrv) as reader:
        for key, (queue_id, offset) in places.items():
            queue = MessageQueue(name, "broker-a", queue_id)
            assert reader.pull(queue, offset).messages[0].keys == (key,)
