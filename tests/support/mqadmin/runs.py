"""Apache's mqadmin on a cluster that holds the tests' content, with all that it was answered."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from support.interop.apache_servers import BROKER_NAME, CLUSTER_NAME
from support.interop.clusters import Cluster
from support.interop.java_probe import JavaProbe

from pocketmq.client import (
    Admin,
    Message,
    MessageQueue,
    Producer,
    PushConsumer,
    ReceivedMessage,
)
from pocketmq.protocol.bodies.clients import GroupConfig

MESSAGES = 20
QUEUES = 4
ORDERED_QUEUES = 2
LONG_NAME_LENGTH = 300
OFFSET_ID_HOST, FAR_AWAY = 16, "00000FFFFFFFFFFF"
"""Of an offset message id: how much of it is the address, and a place where no message is."""

NOTIFICATION = 40
"""What brokers tell the clients inside mqadmin; all other requests are mqadmin's own."""


DEADLINE_S = 600  # 200 calls, on whatever machine

UNSTEADY = ("queryMsg", "printMsg", "consumeMessage")
TRIES = 3
"""These sub-commands are tried more than once, and the try that got furthest counts: now and then
Apache's client fails by itself when two of its threads open the connection to a broker together."""


class Exchange(NamedTuple):
    """What a server was asked, and its answer; bytes of bodies are characters."""

    request: int
    fields: dict[str, str]
    body: str
    code: int
    remark: str | None
    answer_fields: dict[str, str]
    answer_body: str


class Seen(NamedTuple):
    """What a sub-command printed, the trace that it ended with, and its exchanges."""

    printed: str
    errors: str
    exchanges: list[Exchange]

    @property
    def reach(self) -> int:
        """How far it got: to how many answers of different kinds."""
        return len({exchange.request for exchange in self.exchanges})

    def table(self, separator: str) -> dict[str, str]:
        """Lines of a name and a value."""
        pairs = (line.partition(separator) for line in self.printed.splitlines())
        return {name.strip(): value.strip() for name, found, value in pairs if found}


class Outcome(NamedTuple):
    """All sub-commands of one cluster, by their words, and what stood for which value."""

    seen: dict[str, Seen]
    names: dict[str, str]

    def named(self, text: str) -> str:
        """A text with the names in place of the values that differ from cluster to cluster."""
        for name, value in sorted(self.names.items(), key=lambda item: -len(item[1])):
            text = text.replace(value, name)
        return text


async def operate(
    probe: JavaProbe, cluster: Cluster, calls: Sequence[str], folder: Path
) -> Outcome:
    """Fills a cluster and runs sub-commands on it, one after the other."""
    tries = [call for call in calls for _ in range(TRIES if call.startswith(UNSTEADY) else 1)]
    async with content(cluster, folder) as names:
        words = [
            [_value(word, names) for word in call.split()]
            + (["-n", cluster.namesrv] if " -a NAMESRV" not in call else [])
            for call in tries
        ]
        quoted = json.dumps(words)
        answers: Any = await asyncio.to_thread(
            probe.run, "mqadmin", calls=quoted, deadline_s=DEADLINE_S
        )
    seen: dict[str, Seen] = {}
    for call, answer in zip(tries, answers, strict=True):
        one = _seen(answer)
        if call not in seen or one.reach > seen[call].reach:
            seen[call] = one
    return Outcome(seen, names)


def _value(word: str, names: dict[str, str]) -> str:
    """A word with the names in it replaced; they may be parts, as in ``NAME:3``."""
    if word in names:
        return names[word]
    for separator in ":/":
        head, found, tail = word.partition(separator)
        if found and head in names:
            return names[head] + separator + _value(tail, names)
    return word


def _seen(answer: dict[str, Any]) -> Seen:
    exchanges = [
        Exchange(
            e["request"], e["fields"] or {}, e["body"] or "", e["code"], e["remark"],
            e["answerFields"] or {}, e["answerBody"] or "",
        )
        for e in answer["exchanges"]
        if e["request"] != NOTIFICATION
    ]  # fmt: skip
    return Seen(answer["printed"], answer["errors"], exchanges)


@asynccontextmanager
async def content(cluster: Cluster, folder: Path) -> AsyncIterator[dict[str, str]]:
    """Messages in every queue, a group that is behind, and one with a member that is not.

    Yields:
        What the words of the calls stand for.
    """
    broker, namesrv = cluster.brokers[BROKER_NAME], cluster.namesrv
    names = {
        "TOPIC": "mqadmin-topic", "GROUP": "mqadmin-behind", "LIVE": "mqadmin-live",
        "PRODUCERS": "mqadmin-producers", "TRACES": "mqadmin-traces",
        "ORDERED": "mqadmin-ordered", "NEW": "mqadmin-new", "NEW_TOO": "mqadmin-new-too",
        "NEW_GROUP": "mqadmin-new-group", "STATIC": "mqadmin-static", "SPACE": "mqadmin-space",
        "NOWHERE": "mqadmin-nowhere", "UNKNOWN": "mqadmin-unknown",
        "NOBODY": "127.0.0.1:1", "LONG": "x" * LONG_NAME_LENGTH,
        "BROKER": broker, "NAMESRV": namesrv, "CLUSTER": CLUSTER_NAME, "NAME": BROKER_NAME,
        "FOLDER": str(folder), **_lists(folder),
    }  # fmt: skip
    topic, group = names["TOPIC"], names["GROUP"]
    async with AsyncExitStack() as stack:
        admin = await stack.enter_async_context(Admin(namesrv))
        await admin.create_topic(topic, QUEUES)
        await admin.create_topic(names["TRACES"], 1)
        await admin.create_topic(names["ORDERED"], ORDERED_QUEUES, order=True)
        order = f"{BROKER_NAME}:{ORDERED_QUEUES}"
        await admin.kv_put("ORDER_TOPIC_CONFIG", names["ORDERED"], order)
        await admin.create_group(GroupConfig(group_name=group, retry_max_times=3))
        await admin.create_group(GroupConfig(group_name=names["LIVE"]))
        producer = await stack.enter_async_context(
            Producer(
                names["PRODUCERS"], namesrv, instance_name="producer", enable_trace=True,
                trace_topic=names["TRACES"],
            )
        )  # fmt: skip
        for number in range(MESSAGES):
            queue = MessageQueue(topic, BROKER_NAME, number % QUEUES)
            # In one queue: only there it is told which of one millisecond came last.
            keys = f"key{number} shared" if queue.queue_id == 1 else f"key{number}"
            tag = "TagB" if number % 3 == 0 else "TagA"
            message = Message(topic, b"%05d" % number, keys=keys.split(), tags=tag)
            result = await producer.send(message, queue=queue)
        names["OFFSET_ID"], names["UNIQUE_KEY"] = result.offset_msg_id, result.msg_id
        names["NO_SUCH_ID"] = result.offset_msg_id[:OFFSET_ID_HOST] + FAR_AWAY
        for queue_id in range(QUEUES):
            queue = MessageQueue(topic, BROKER_NAME, queue_id)
            await admin.commit_offset(group, queue, queue_id + 1)
        await admin.commit_offset(group, MessageQueue(names["ORDERED"], BROKER_NAME, 0), 0)
        member = await stack.enter_async_context(_member(namesrv, names["LIVE"], topic))
        names["MEMBER"] = member.instance.client_id
        yield names


def _lists(folder: Path) -> dict[str, str]:
    """The files that describe several topics or groups."""
    topics, groups = folder / "topics.json", folder / "groups.json"
    topics.write_text(
        json.dumps(
            [
                {"topicName": f"mqadmin-listed{n}", "readQueueNums": n, "writeQueueNums": n,
                 "perm": 6, "topicFilterType": "SINGLE_TAG"}
                for n in (1, 2)
            ]
        )
    )  # fmt: skip
    groups.write_text(
        json.dumps([{"groupName": f"mqadmin-listed{n}", "retryMaxTimes": n} for n in (1, 2)])
    )
    return {"TOPICS_FILE": str(topics), "GROUPS_FILE": str(groups)}


@asynccontextmanager
async def _member(namesrv: str, group: str, topic: str) -> AsyncIterator[PushConsumer]:
    """A consumer that has handled and committed everything."""
    consumed = 0
    is_done = asyncio.Event()

    async def listen(messages: list[ReceivedMessage]) -> None:
        nonlocal consumed
        consumed += len(messages)
        if consumed == MESSAGES:
            is_done.set()

    consumer = PushConsumer(
        group, namesrv, listener=listen, instance_name="member", persist_interval_ms=100,
        consume_from_where="CONSUME_FROM_FIRST_OFFSET",
    )  # fmt: skip
    consumer.subscribe(topic, "*")
    async with consumer, Admin(namesrv) as admin:
        await is_done.wait()
        while sum(row.lag for row in await admin.consume_stats(group, topic)):
            pass  # the consumer commits by itself, soon
        yield consumer
