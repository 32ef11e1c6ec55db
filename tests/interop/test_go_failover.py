"""Apache's client for Go, unmodified, on a broker set of two whose leader changes.

It goes on by itself, but slowly, by limits of its own that no option changes: it asks for routes
every 30 s only, and its retries follow each other at once. So after each change its sends and pulls
fail until then, and the application sends again. A consumer whose new leader does not know its
group yet takes that for a group without members, and gives its queues up for at most 20 s.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from support.arbiters.broker_sets import BrokerSet, broker_set
from support.interop.go_probe import GoProbe
from support.interop.leader_changes import MEMBERS, kill, switch

from pocketmq.client.blocking import Admin, Producer, PullConsumer
from pocketmq.protocol.errors import PocketMQError
from pocketmq.protocol.messages.message import Message, MessageQueue

# The first run downloads the client.
pytestmark = [pytest.mark.interop, pytest.mark.whole_interop, pytest.mark.timeout(600)]

BETWEEN = 12
"""So many messages are stored before each change, and after the last one."""

LAST = "last"
DEADLINE_S = 240


@pytest.fixture
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerSet]:
    with broker_set(tmp_path_factory.mktemp("set")) as running:
        running.wait_until_in_sync(*MEMBERS)
        yield running


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


def test_all_that_was_acknowledged_stays_and_arrives(go_probe: GoProbe, pair: BrokerSet) -> None:
    name = f"failover-{uuid.uuid4().hex[:8]}"
    leader = pair.members[pair.leader(*MEMBERS)].address
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(
            go_probe.run, "failover", namesrv=pair.namesrv, broker=leader, topic=name, group=name,
            deadline_s=DEADLINE_S,
        )  # fmt: skip
        for change in (switch, kill, switch):
            wait_for_messages(pair, name, running)
            change(pair)
        wait_for_messages(pair, name, running)
        with Producer(name, pair.namesrv) as producer:
            producer.send(Message(name, LAST, keys=LAST))
        seen = running.result()
    places = {one["key"]: (one["queueId"], one["queueOffset"]) for one in seen["sent"]}
    assert len(places) == len(seen["sent"])
    assert {one["message"]["keys"] for one in seen["deliveries"]} == {*places, LAST}
    with PullConsumer(f"{name}-reader", pair.namesrv) as reader:
        for key, (queue_id, offset) in places.items():
            queue = MessageQueue(name, "broker-a", queue_id)
            assert reader.pull(queue, offset).messages[0].keys == (key,)
