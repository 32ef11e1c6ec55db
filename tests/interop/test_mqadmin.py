"""Apache's mqadmin on this cluster and on Apache's own, with the same content.

All sub-commands of one cluster run in one JVM. What the two say is compared line by line, without
what must differ: addresses, times, ids and rates.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from interop.apache_servers import BROKER_NAME, CLUSTER_NAME
from interop.clusters import HOST, Cluster
from interop.java_probe import JavaProbe

from pocketmq.broker import Broker, BrokerConfig
from pocketmq.client import Admin, Message, MessageQueue, Producer
from pocketmq.namesrv import NameServer, NamesrvConfig
from pocketmq.protocol.bodies.clients import GroupConfig
from pocketmq.protocol.requests.offsets import UpdateConsumerOffsetRequest
from pocketmq.transport.clock import SystemClock
from pocketmq.transport.pool import ConnectionPool

pytestmark = [pytest.mark.interop, pytest.mark.whole_interop, pytest.mark.timeout(300)]

MESSAGES = 20
QUEUES = 4
CALL_TIMEOUT_MS = 10_000

SAME = (
    "topicRoute -t TOPIC",
    "topicRoute -t TOPIC -l",
    "topicStatus -t TOPIC",
    "topicClusterList -t TOPIC",
    "getConsumerConfig -g GROUP",
    "allocateMQ -t TOPIC -i a,b",
    "consumerProgress -g GROUP",
    "brokerConsumeStats -b BROKER",
    "queryCq -t TOPIC -q 1 -i 0 -c 3 -b BROKER",
    "consumerConnection -g GROUP",
    "producerConnection -g GROUP -t TOPIC",
    "updateOrderConf -t TOPIC -m get",
    "cleanExpiredCQ -b BROKER",
    "cleanUnusedTopic -b BROKER",
    "deleteExpiredCommitLog -b BROKER",
    "resetMasterFlushOffset -b BROKER -o 0",
    "updateBrokerConfig -b BROKER -k fileReservedTime -v 72",
    "updateBrokerConfig -b BROKER -k brokerConfigPath -v x",
    "exportMetadata -b BROKER -f FOLDER",
    "exportConfigs -c CLUSTER -f FOLDER",
    "exportMetrics -c CLUSTER -f FOLDER",
    "deleteTopic -c CLUSTER -t NOWHERE",
    "deleteSubGroup -b BROKER -g NOWHERE",
)
"""What both clusters must say the same to."""

SIMILAR = (
    "topicList",
    "topicList -c",
    "clusterList",
    "clusterList -m",
    "brokerStatus -b BROKER",
    "getBrokerConfig -b BROKER",
    "getNamesrvConfig",
    "statsAll -t TOPIC",
    "statsAll",
    "haStatus -b BROKER",
    "producer -b BROKER",
)
"""What both must answer, with words or figures of their own."""

REFUSED = {
    "updateBrokerConfig -b BROKER -k nonsense -v 1": 1,
    "updateBrokerConfig -b BROKER -k fileReservedTime -v soon": 1,
    "updateNamesrvConfig -k nonsense -v 1": 1,
    "getColdDataFlowCtrInfo -b BROKER": 3,
    "setConsumeMode -b BROKER -t TOPIC -g GROUP -m POP": 3,
    "checkRocksdbCqWriteProgress -c CLUSTER": 3,
    "listUser -b BROKER": 3,
    "listAcl -b BROKER": 3,
    "getBrokerEpoch -b NAME": 3,
    "getControllerMetaData -a NAMESRV": 3,
}
"""What only this cluster refuses, or for another reason than Apache's, and with which code."""

VARYING = (
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(,\d+)?"), "TIME"),
    (re.compile(r"physicOffset=\d+"), "physicOffset"),
    (re.compile(r"(TPS: |Tps: )[\d.]+"), r"\1RATE"),
    (re.compile(r"(black list\.).*"), r"\1"),
    (re.compile(r"\d+\.\d+\.\d+\.\d+:\d+"), "ADDRESS"),
    (re.compile(r"(CODE: \d+).*"), r"\1"),
    (re.compile(r"[ \t]+"), " "),
)


class Seen(NamedTuple):
    """What a sub-command printed, and the trace that it ended with."""

    printed: str
    errors: str

    def lines(self, names: dict[str, str]) -> list[str]:
        """The lines that can be compared, sorted: tables have no order."""
        causes = [line for line in self.errors.splitlines() if line.startswith("Caused by")]
        text = "\n".join([self.printed, *causes])
        for name, value in names.items():
            text = text.replace(value, name)
        for pattern, replacement in VARYING:
            text = pattern.sub(replacement, text)
        return sorted(line.strip() for line in text.splitlines() if line.strip())

    def table(self, separator: str) -> dict[str, str]:
        """Lines of a name and a value."""
        pairs = (line.partition(separator) for line in self.printed.splitlines())
        return {name.strip(): value.strip() for name, found, value in pairs if found}


class Outcome(NamedTuple):
    """All sub-commands of one cluster, by their words, and what stood for which value."""

    seen: dict[str, Seen]
    names: dict[str, str]

    def lines(self, words: str) -> list[str]:
        return self.seen[words].lines(self.names)


async def fill(namesrv: str, broker: str, topic: str, group: str) -> None:
    """The content: messages in every queue, and a group that is behind."""
    pool = ConnectionPool(SystemClock())
    async with Admin(namesrv) as admin, Producer("mqadmin-test", namesrv=namesrv) as producer:
        await admin.create_topic(topic, QUEUES)
        await admin.create_group(GroupConfig(group_name=group, retry_max_times=3))
        for number in range(MESSAGES):
            message = Message(topic, b"%05d" % number, keys=f"key{number}", tags="TagA")
            queue = MessageQueue(topic, BROKER_NAME, number % QUEUES)
            await producer.send(message, queue=queue)
    for queue_id in range(QUEUES):
        request = UpdateConsumerOffsetRequest(
            consumer_group=group, topic=topic, queue_id=queue_id, commit_offset=queue_id + 1
        )
        await pool.ask(broker, request, CALL_TIMEOUT_MS)
    await pool.close()


async def operate(
    probe: JavaProbe, cluster: Cluster, topic: str, group: str, folder: Path
) -> Outcome:
    """Fills a cluster and runs all sub-commands on it."""
    broker = cluster.brokers[BROKER_NAME]
    names = {
        "TOPIC": topic, "GROUP": group, "BROKER": broker, "NAMESRV": cluster.namesrv,
        "CLUSTER": CLUSTER_NAME, "NAME": BROKER_NAME, "FOLDER": str(folder),
        "NOWHERE": f"{topic}-nowhere",
    }  # fmt: skip
    await fill(cluster.namesrv, broker, topic, group)
    all_words = [*SAME, *SIMILAR, *REFUSED]
    calls = []
    for words in all_words:
        call = [names.get(word, word) for word in words.split()]
        calls.append(call if "-a" in call else [*call, "-n", cluster.namesrv])
    quoted = json.dumps(calls)
    answers: Any = await asyncio.to_thread(probe.run, "mqadmin", calls=quoted)
    seen = {
        words: Seen(answer["printed"], answer["errors"])
        for words, answer in zip(all_words, answers, strict=True)
    }
    del names["NAME"], names["CLUSTER"]
    return Outcome(seen, names)


async def test_mqadmin_sees_here_what_it_sees_on_apaches_cluster(
    probe: JavaProbe,
    apache: Cluster,
    new_name: Callable[[str], str],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    if not probe.is_5:
        pytest.skip("the sub-commands are those of 5.5.0")
    topic, group = new_name("mqadmin"), new_name("mqadmin-group")
    theirs = await operate(probe, apache, topic, group, tmp_path / "theirs")
    with caplog.at_level(logging.INFO, "pocketmq"):
        namesrv_config = NamesrvConfig(listen_port=0, bind_address=HOST)
        async with NameServer(namesrv_config) as namesrv:
            config = BrokerConfig(
                listen_port=0, bind_address=HOST, namesrv_addr=namesrv.address,
                store_path_root_dir=str(tmp_path / "store"), disk_space_free_min=0,
            )  # fmt: skip
            async with Broker(config) as broker:
                cluster = Cluster(namesrv.address, {BROKER_NAME: broker.address})
                ours = await operate(probe, cluster, topic, group, tmp_path / "ours")
    assert "is not supported" not in caplog.text, "an unknown request code"
    for words in SAME:
        assert of_content(ours, words) == of_content(theirs, words), words
    for words in (*SAME, *SIMILAR):
        assert "not supported" not in ours.seen[words].errors, words
    for words in SIMILAR:
        assert not ours.seen[words].errors, words
        assert "null" not in ours.seen[words].printed, words
    for words, code in REFUSED.items():
        said = ours.seen[words].errors
        assert f"CODE: {code}  DESC:" in said, (words, said)
    compare_figures(ours, theirs, topic)


def of_content(outcome: Outcome, words: str) -> list[str]:
    """The comparable lines; of those about a whole broker the ones about the content."""
    lines = outcome.lines(words)
    if words.startswith("brokerConsumeStats"):
        lines = [line for line in lines if line.startswith("TOPIC GROUP")]
        assert len(lines) == QUEUES
    return lines


def compare_figures(ours: Outcome, theirs: Outcome, topic: str) -> None:
    """Names of figures, and values where both must have counted the same."""
    status = "brokerStatus -b BROKER"
    our_figures, their_figures = (o.seen[status].table(":") for o in (ours, theirs))
    # Their broker has served other tests too, whose delay levels and directories it tells of.
    of_content = ("commitLogDiskRatio_", "scheduleMessageOffset_")
    names = {name for name in their_figures if not name.startswith(of_content)}
    assert sorted(names - our_figures.keys()) == []
    assert our_figures["msgPutTotalTodayNow"] == our_figures["putMessageTimesTotal"] == "20"
    size = int(our_figures["putMessageSizeTotal"])
    assert float(our_figures["putMessageAverageSize"]) == size / MESSAGES
    for outcome in (ours, theirs):
        (row,) = [
            line.split()
            for line in outcome.seen["statsAll -t TOPIC"].printed.splitlines()
            if line.startswith(topic)
        ]
        assert row[2] == str(MESSAGES - sum(range(QUEUES + 1))), "the group is behind"
        if outcome is ours:  # Apache's counts show ten seconds later
            assert row[5] == str(MESSAGES)
    columns = [
        len(outcome.seen["clusterList"].printed.split(CLUSTER_NAME)[1].split())
        for outcome in (ours, theirs)
    ]
    assert columns[0] == columns[1]
