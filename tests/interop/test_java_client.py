"""Apache's Java client on this cluster: topics, every form of send, pull, offsets, lookups."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from interop.conftest import RunProbe
from support.interop import known_messages
from support.interop.clusters import Cluster
from support.interop.java_probe import JavaProbe, is_older
from support.interop.probes import ProbeFailure

# The first run downloads the Java client.
pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

READ_QUEUES = 6
WRITE_QUEUES = 4
PERM_READ_WRITE = 6
PERM_READ = 4
TOPIC_NOT_EXIST = 17
CODECS = ("JSON", "ROCKETMQ")

NewName = Callable[[str], str]
Document = dict[str, Any]


@dataclass
class Exchange:
    """One topic after a full round: what was sent and what was pulled."""

    topic: str
    group: str
    sent: list[Document]
    pulled: Document

    def messages(self) -> list[Document]:
        """All received messages, by queue and offset."""
        return [
            # Clients before 4.7 leave the name out.
            {**message, "brokerName": message["brokerName"] or queue["queue"]["brokerName"]}
            for queue in self.pulled["queues"]
            for message in queue["messages"]
        ]

    def at(self, broker: str, queue_id: int, offset: int) -> Document:
        """The message at a position."""
        [found] = [
            message
            for message in self.messages()
            if (message["brokerName"], message["queueId"]) == (broker, queue_id)
            and message["queueOffset"] == offset
        ]
        return found

    def form(self, form: str) -> list[Document]:
        """What was sent in one form."""
        return [sent for sent in self.sent if sent["form"] == form]


@pytest.fixture(scope="module", params=CODECS)
def exchange(request: pytest.FixtureRequest, java: RunProbe, new_name: NewName) -> Exchange:
    """Create a topic, send in every form, pull it all; once with each codec of the Java client."""
    topic, group = new_name(f"round-{request.param}"), new_name(f"puller-{request.param}")
    jvm = {"rocketmq.serialize.type": request.param}
    java("create-topic", topic=topic, read_queues=READ_QUEUES, write_queues=WRITE_QUEUES, jvm=jvm)
    sent = java("send", topic=topic, jvm=jvm)["sent"]
    pulled = java("pull", topic=topic, group=group, expect=len(sent), jvm=jvm)
    return Exchange(topic, group, sent, pulled)


def assert_same_message(outgoing: Document, received: Document) -> None:
    for name in ("topic", "tags", "keys", "flag"):
        assert received[name] == outgoing[name], name
    assert received["body"] == outgoing["body"]
    assert outgoing["properties"].items() <= received["properties"].items()


def test_topic_has_its_own_read_and_write_queue_counts(java: RunProbe, new_name: NewName) -> None:
    topic = new_name("created")
    created = java("create-topic", topic=topic, read_queues=8, write_queues=3)
    for broker in created["route"]:
        assert (broker["readQueues"], broker["writeQueues"]) == (8, 3)
        assert broker["perm"] == PERM_READ_WRITE
    brokers = len(created["brokers"])
    sent = java("send", topic=topic, forms="queue")["sent"]
    assert [message["result"]["queueId"] for message in sent] == [0, 1, 2] * brokers
    assert len(java("pull", topic=topic)["queues"]) == 8 * brokers


def test_topic_can_be_changed(java: RunProbe, new_name: NewName) -> None:
    topic = new_name("changed")
    java("create-topic", topic=topic, read_queues=2, write_queues=2)
    changed = java("create-topic", topic=topic, read_queues=5, write_queues=5, perm=PERM_READ)
    for broker in changed["route"]:
        assert (broker["readQueues"], broker["writeQueues"]) == (5, 5)
        assert broker["perm"] == PERM_READ
    with pytest.raises(ProbeFailure) as refused:
        java("send", topic=topic, forms="sync")
    assert refused.value.exit_code == 1


def test_topic_is_created_by_the_first_send(java: RunProbe, new_name: NewName) -> None:
    topic = new_name("auto")
    [plain, full] = java("send", topic=topic, forms="sync")["sent"]
    assert plain["result"]["status"] == full["result"]["status"] == "SEND_OK"
    pulled = java("pull", topic=topic, expect=2)
    # The client asks for 4 (its defaultTopicQueueNums), and no broker's default is less.
    assert len(pulled["queues"]) == 4
    assert sum(len(queue["messages"]) for queue in pulled["queues"]) == 2


@pytest.mark.parametrize("form", ["sync", "async", "queue", "selector", "compressed", "non-ascii"])
def test_message_is_stored_where_the_answer_says(exchange: Exchange, form: str) -> None:
    assert exchange.form(form)
    for sent in exchange.form(form):
        result = sent["result"]
        assert result["status"] == "SEND_OK"
        stored = exchange.at(result["brokerName"], result["queueId"], result["queueOffset"])
        assert_same_message(sent["message"], stored)
        assert stored["msgId"] == result["msgId"]
        assert stored["offsetMsgId"] == result["offsetMsgId"]


def test_one_way_message_arrives(exchange: Exchange) -> None:
    [sent] = exchange.form("one-way")
    [stored] = [message for message in exchange.messages() if message["keys"] == "one-way"]
    assert_same_message(sent["message"], stored)


def test_batch_is_stored_in_order_in_one_queue(exchange: Exchange) -> None:
    batch = exchange.form("batch")
    result = batch[0]["result"]
    assert result["status"] == "SEND_OK"
    ids, offset_ids = result["msgId"].split(","), result["offsetMsgId"].split(",")
    assert len(ids) == len(offset_ids) == len(batch)
    for position, sent in enumerate(batch):
        offset = result["queueOffset"] + position
        stored = exchange.at(result["brokerName"], result["queueId"], offset)
        assert_same_message(sent["message"], stored)
        assert stored["msgId"] == ids[position]
        assert stored["offsetMsgId"] == offset_ids[position]


def test_every_write_queue_can_be_addressed(exchange: Exchange) -> None:
    queues = [sent["result"]["queueId"] for sent in exchange.form("queue")]
    assert sorted(set(queues)) == list(range(WRITE_QUEUES))


def test_selected_messages_stay_in_order(exchange: Exchange) -> None:
    results = [sent["result"] for sent in exchange.form("selector")]
    assert len({(result["brokerName"], result["queueId"]) for result in results}) == 1
    offsets = [result["queueOffset"] for result in results]
    assert offsets == list(range(offsets[0], offsets[0] + len(offsets)))


def test_large_body_is_stored_compressed(exchange: Exchange) -> None:
    [sent] = exchange.form("compressed")
    [stored] = [message for message in exchange.messages() if message["keys"] == "compressed"]
    # The consumer inflates the body and clears the flag: the record's size is what still tells.
    assert stored["storeSize"] < sent["message"]["body"]["size"]


def test_stored_messages_carry_times_and_hosts(exchange: Exchange) -> None:
    for message in exchange.messages():
        assert message["bornTimestamp"] > 0
        assert message["storeTimestamp"] > 0
        assert re.fullmatch(r"[\da-f.:]+:\d+", message["bornHost"])
        assert re.fullmatch(r"[\da-f.:]+:\d+", message["storeHost"])
        assert message["reconsumeTimes"] == 0


def test_queues_tell_their_offsets(exchange: Exchange) -> None:
    total = 0
    for queue in exchange.pulled["queues"]:
        count = len(queue["messages"])
        total += count
        assert (queue["minOffset"], queue["maxOffset"]) == (0, count)
        assert [message["queueOffset"] for message in queue["messages"]] == list(range(count))
        if queue["messages"]:
            assert queue["earliestStoreTimestamp"] == queue["messages"][0]["storeTimestamp"]
    assert total == len(exchange.sent)
    # Read queues that no producer writes to are there and empty.
    empty = [queue for queue in exchange.pulled["queues"] if not queue["messages"]]
    assert {queue["queue"]["queueId"] for queue in empty} == set(range(WRITE_QUEUES, READ_QUEUES))


def test_pull_answers_tell_where_to_go_on(exchange: Exchange) -> None:
    for queue in exchange.pulled["queues"]:
        end = queue["maxOffset"]
        for pull in queue["pulls"]:
            assert pull["status"] == "FOUND"
            assert pull["nextBeginOffset"] == pull["askedOffset"] + pull["messages"]
            assert (pull["minOffset"], pull["maxOffset"]) == (0, end)
        at_end, beyond = queue["pullAtEnd"], queue["pullBeyondEnd"]
        assert (at_end["status"], at_end["nextBeginOffset"]) == ("NO_NEW_MSG", end)
        assert (beyond["status"], beyond["nextBeginOffset"]) == ("OFFSET_ILLEGAL", end)


def test_tag_filter_selects(exchange: Exchange) -> None:
    for queue in exchange.pulled["queues"]:
        tagged = [one["queueOffset"] for one in queue["messages"] if one["tags"] == "TagA"]
        assert queue["offsetsWithTag"] == tagged


def test_offset_search_finds_the_first_message_not_before(exchange: Exchange) -> None:
    searches = 0
    for queue in exchange.pulled["queues"]:
        times = [message["storeTimestamp"] for message in queue["messages"]]
        for search in queue["searches"]:
            earlier = [time for time in times if time < search["timestamp"]]
            assert search["found"] == len(earlier), search
            searches += 1
    assert searches > len(exchange.sent)


def test_committed_offset_is_kept(exchange: Exchange) -> None:
    for queue in exchange.pulled["queues"]:
        offsets = queue["offsets"]
        # A broker may answer "nothing committed" or 0 for a queue that is still complete.
        assert offsets["before"] in (-1, 0)
        assert offsets["afterCommit"] == offsets["committed"] == queue["maxOffset"]


def test_message_is_found_by_its_id(exchange: Exchange) -> None:
    messages = exchange.messages()
    assert len(exchange.pulled["viewed"]) == len(messages)
    for message in messages:
        viewed = exchange.pulled["viewed"][message["offsetMsgId"]]
        assert_same_message(message | {"properties": {}}, viewed)
        for name in ("queueId", "queueOffset", "commitLogOffset", "msgId", "storeTimestamp"):
            assert viewed[name] == message[name], name


@pytest.mark.parametrize("mode", ["assign", "subscribe"])
def test_lite_consumer_reads_everything(
    java: RunProbe, exchange: Exchange, new_name: NewName, probe: JavaProbe, mode: str
) -> None:
    if is_older(probe.client_version, "4.6"):
        pytest.skip(f"the client {probe.client_version} has no lite pull consumer")
    group = new_name(f"{mode}-{exchange.topic}")
    expected = len(exchange.sent)
    seen = java("lite-pull", topic=exchange.topic, group=group, mode=mode, expect=expected)
    positions = [_position(message) for message in seen["messages"]]
    assert positions == [_position(message) for message in exchange.messages()]
    ends = {_name(queue["queue"]): queue["maxOffset"] for queue in exchange.pulled["queues"]}
    written = {name: end for name, end in ends.items() if end}
    assert written.items() <= seen["committed"].items()
    # Another client of the group sees the same offsets: they are stored on the broker.
    again = java("pull", topic=exchange.topic, group=group)
    stored = {_name(queue["queue"]): queue["offsets"]["before"] for queue in again["queues"]}
    assert written.items() <= stored.items()


def test_operator_sees_cluster_route_and_statistics(
    java: RunProbe, exchange: Exchange, cluster: Cluster
) -> None:
    seen = java("inspect", topic=exchange.topic)
    masters = {name: addresses["0"] for name, addresses in seen["brokers"].items()}
    assert seen["clusters"] == {"DefaultCluster": sorted(masters)}
    assert masters == (cluster.brokers or masters)
    assert {broker["brokerName"] for broker in seen["route"]} == set(masters)
    stats = {_name(one["queue"]): (one["minOffset"], one["maxOffset"]) for one in seen["stats"]}
    for queue in exchange.pulled["queues"]:
        name = _name(queue["queue"])
        if queue["messages"] or name in stats:
            assert stats[name] == (queue["minOffset"], queue["maxOffset"])
    assert seen["missingTopicCode"] == TOPIC_NOT_EXIST
    assert "interop-no-such-topic" in seen["missingTopicReason"]


def test_known_messages_survive_the_round(java: RunProbe, new_name: NewName) -> None:
    topic = new_name("known")
    java(
        "create-topic",
        topic=topic,
        read_queues=known_messages.QUEUES,
        write_queues=known_messages.QUEUES,
    )
    java("produce-known", topic=topic, messages=known_messages.FILE)
    consumed = java("consume-known", topic=topic, messages=known_messages.FILE)
    assert consumed["differences"] == []
    # The same file as this side reads it: both readings must agree, or cross checks mean little.
    expected = defaultdict(list)
    for known in known_messages.known_messages():
        expected[known.queue_id].append((known.tags, known.keys, known.flag, len(known.body)))
    received = defaultdict(list)
    for message in consumed["messages"]:
        received[message["queueId"]].append(
            (message["tags"], message["keys"], message["flag"], message["body"]["size"])
        )
    assert received == expected


def _position(message: Document) -> tuple[str, int, int, str]:
    return (
        message["brokerName"],
        message["queueId"],
        message["queueOffset"],
        message["body"]["sha256"],
    )


def _name(queue: Document) -> str:
    return f"{queue['brokerName']}:{queue['queueId']}"
