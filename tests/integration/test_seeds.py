"""Seed files and snapshots on real brokers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from support.commands.here import Command, here, ok, pocketmq
from support.interop.clusters import pocketmq_cluster
from support.protocol.strategies import PLAIN_TEXT
from unit.protocol.messages.test_message_json import OWN

from pocketmq.client import Admin, Message, MessageQueue
from pocketmq.client.copying.seeds import apply_seed, read_seed, snapshot_text, take_snapshot
from pocketmq.client.copying.seeds.loading import KV_NAMESPACE
from pocketmq.protocol.errors import ConfigError, UsageError
from pocketmq.testing import LocalCluster
from pocketmq.testing.cluster import Cluster

__all__ = ["here"]

SEED = """
topics:
  Orders:
    queues: 2
    type: FIFO
    messages:
      - hello
      - {body: two, keys: [k1, k2], tags: new, properties: {a: b}, broker: broker-b, queue: 1}
      - {bodyBase64: AP8=, properties: {__SHARDINGKEY: s}}
    file: more.jsonl
  Payments: 8
  Usual:
  Log: {readQueues: 3, writeQueues: 2, perm: r, messages: [{body: old, queue: 2, broker: broker-a}]}
  Only: {order: true, brokers: {broker-a: {queues: 3}, broker-b: {queues: 5, perm: w}}}
  Here: {brokers: {broker-b: }}
groups:
  billing:
    retryTimes: 3
    retryQueues: 2
    offsets:
      Orders: latest
      Log: {broker-a: {2: 1}}
  audit: {consume: false, broadcast: false, orderly: true, notify: false}
  local: {brokers: {broker-a: {retryTimes: 5}}}
  plain:
"""

SNAPSHOT = """
topics:
  Here:
    brokers:
      broker-b:
        queues: 4
  Log:
    readQueues: 3
    writeQueues: 2
    perm: r
    messages:
    - body: old
      broker: broker-a
      queue: 2
  Only:
    brokers:
      broker-a:
        queues: 3
        order: true
      broker-b:
        queues: 5
        perm: w
        order: true
  Orders:
    queues: 2
    type: FIFO
    messages:
    - body: hello
      broker: broker-a
      queue: 0
    - body: m1
      broker: broker-a
      queue: 1
    - body: m2
      broker: broker-b
      queue: 0
    - body: two
      keys: [k1, k2]
      tags: new
      properties: {a: b}
      broker: broker-b
      queue: 1
    - bodyBase64: AP8=
      properties: {__SHARDINGKEY: s}
      broker: broker-b
      queue: 1
  Payments:
    queues: 8
  Usual:
    queues: 4
groups:
  audit: {consume: false, broadcast: false, orderly: true, notify: false}
  billing:
    retryQueues: 2
    retryTimes: 3
    offsets:
      Log: {broker-a: {2: 1}}
      Orders: {broker-a: {0: 1, 1: 1}, broker-b: {0: 1, 1: 2}}
  local:
    brokers:
      broker-a:
        retryTimes: 5
  plain: {}
"""


@pytest.fixture
def seed_file(tmp_path: Path) -> Path:
    path = tmp_path / "cluster.yaml"
    path.write_text(SEED)
    (tmp_path / "more.jsonl").write_text('{"body": "m1"}\n\n{"body": "m2"}')
    return path


def snapshot(cluster: Cluster, messages: int = 100) -> dict[str, Any]:
    return cluster.thread.run(take_snapshot(cluster.namesrv, messages))


def without_ids(taken: dict[str, Any]) -> dict[str, Any]:
    for topic in taken["topics"].values():
        for message in topic.get("messages", ()):
            assert message.pop("msgId")
    return taken


def test_a_snapshot_is_the_seed(seed_file: Path, tmp_path: Path) -> None:
    with LocalCluster(brokers=2, seed_file=seed_file) as cluster:
        first = snapshot(cluster)
        assert cluster.stored("Log").bodies == [b"old"]
    again = tmp_path / "again.yaml"
    again.write_text(snapshot_text(first))
    with LocalCluster(brokers=2, seed_file=again) as cluster:
        assert snapshot_text(snapshot(cluster)) == again.read_text()
    assert without_ids(first) == yaml.safe_load(SNAPSHOT)


def test_the_same_seed_twice_loads_messages_once(seed_file: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"brokers": 2, "data": str(tmp_path / "data")}
    with LocalCluster(**options, seed_file=seed_file) as cluster:
        first = snapshot(cluster)
        with cluster.admin() as admin:
            admin.commit_offset("billing", MessageQueue("Orders", "broker-a", 0), 0)
            admin.create_topic("Mine", 1)
        with cluster.producer() as producer:
            producer.send(Message("Mine", b"x"))
    with LocalCluster(**options, seed_file=seed_file) as cluster:
        second = snapshot(cluster)
        assert second["topics"].pop("Mine")["queues"] == 1
        assert second["topics"] == first["topics"]
        offsets = second["groups"]["billing"]["offsets"]["Orders"]
        assert offsets["broker-a"] == {0: 0, 1: 1}  # where the group stands is left alone
        with cluster.admin() as admin:
            admin.delete_topic("Orders")
    with LocalCluster(**options, seed_file=seed_file) as cluster:
        assert len(cluster.stored("Orders")) == 5  # a topic that is new is loaded again


def test_an_interrupted_load_goes_on(seed_file: Path, tmp_path: Path) -> None:
    bodies = [str(number) for number in range(200)]
    seed_file.write_text(yaml.safe_dump({"topics": {"T": {"queues": 2, "messages": bodies}}}))
    with LocalCluster() as cluster:
        with cluster.admin() as admin, cluster.producer() as producer:
            admin.create_topic("T", 2)
            producer.send(Message("T", b"earlier"), queue=MessageQueue("T", "broker-a", 1))
            digest = read_seed(seed_file).digest("T")
            note = f'{{"digest":"{digest}","is_done":false,'
            admin.kv_put(KV_NAMESPACE, "T", note + '"first_offsets":{"broker-a:1":1}}')
            for number in range(0, 60, 2):  # what an earlier run had sent to one of the queues
                queue = MessageQueue("T", "broker-a", 0)
                producer.send(Message("T", str(number)), queue=queue)
        report = cluster.thread.run(apply_seed(read_seed(seed_file), cluster.namesrv))
        assert report.messages == 170
        stored = cluster.stored("T")
        of_queue = {q: [m.body for m in stored if m.queue_id == q] for q in (0, 1)}
        assert of_queue[0] == [b"%d" % n for n in range(0, 200, 2)]
        assert of_queue[1] == [b"earlier"] + [b"%d" % n for n in range(1, 200, 2)]
        assert cluster.thread.run(apply_seed(read_seed(seed_file), cluster.namesrv)).messages == 0


def test_other_messages_are_not_loaded_and_that_is_told(seed_file: Path) -> None:
    with LocalCluster(brokers=2, seed_file=seed_file) as cluster:
        seed_file.write_text("topics: {Orders: {queues: 3, messages: [other]}}")
        report = cluster.thread.run(apply_seed(read_seed(seed_file), cluster.namesrv))
        assert (report.topics, report.messages) == (1, 0)
        assert "Orders has had other messages of a seed" in report.notes[0]
        assert report.notes[0].startswith(f"{seed_file}:1:")
        assert snapshot(cluster)["topics"]["Orders"]["queues"] == 3


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)
HOSTILE = st.lists(st.tuples(st.binary(min_size=1, max_size=50) | TEXTS.map(str.encode), OWN,
                             st.none() | PLAIN_TEXT), min_size=1, max_size=10)  # fmt: skip


@settings(max_examples=8, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(messages=HOSTILE)
def test_messages_come_through_a_snapshot(
    two: tuple[Cluster, Cluster], messages: list[Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    first, second = two
    name = f"H{len(first.core.names()[0])}"
    first.create_topic(name, 1)
    with first.producer() as producer:
        for body, own, tags in messages:
            producer.send(Message(name, body, properties=own, tags=tags))
    path = tmp_path_factory.mktemp("hostile") / "seed.yaml"
    path.write_text(snapshot_text(snapshot(first)), encoding="utf-8")
    second.thread.run(apply_seed(read_seed(path), second.namesrv))
    assert [m.body for m in second.stored(name)] == [body for body, _, _ in messages]
    assert snapshot(second) == snapshot(first)


@pytest.fixture(scope="module")
def two() -> Iterator[tuple[Cluster, Cluster]]:
    with LocalCluster() as first, LocalCluster() as second:
        yield first, second


def test_a_snapshot_counts_from_its_first_message(tmp_path: Path) -> None:
    with LocalCluster(topics={"T": 1}, groups=["g"]) as cluster:
        with cluster.producer() as producer, cluster.admin() as admin:
            for number in range(10):
                producer.send(Message("T", str(number)))
            admin.commit_offset("g", MessageQueue("T", "broker-a", 0), 8)
        assert snapshot(cluster, 0)["groups"]["g"]["offsets"] == {"T": {"broker-a": {0: 0}}}
        taken = snapshot(cluster, 3)
        assert [m["body"] for m in taken["topics"]["T"]["messages"]] == ["7", "8", "9"]
        assert taken["groups"]["g"]["offsets"] == {"T": {"broker-a": {0: 1}}}
        with pytest.raises(UsageError, match="between 0 and 10000"):
            snapshot(cluster, 10_001)
        with cluster.producer() as producer:
            producer.send(Message("T", b"x" * 1_100_000))
        with pytest.raises(UsageError, match="take fewer messages"):
            snapshot(cluster, 1)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("topics:\n  A: {queue: 2}", ":2:7: unknown key 'queue'; did you mean 'queues'?"),
        ("topic: {A: 1}", ":1:1: unknown key 'topic'; did you mean 'topics'?"),
        ("topics:\n  A: 1\n  B: 1\n  A: 2", ":4:3: the key 'A' stands twice, first in line 2"),
        ("topics:\n  A: many", ":2:6: the value of topics.A does not fit: expected int"),
        ("topics:\n  A: {queues: 0}", ":2:15: the value of topics.A.queues does not fit"),
        ("topics:\n  A:\n    perm: x", ":3:11: the value of topics.A.perm does not fit"),
        ("topics:\n  A: {type: fifo}", ":2:13: the value of topics.A.type does not fit"),
        ("topics:\n  A: {queues: 1, readQueues: 2}", ":2:15: give queues, or readQueues"),
        ("topics:\n  a b: 1", ":2:8: The specified topic: a b, contains illegal characters"),
        ("topics:\n  TBW102: 1", ":2:11: topic TBW102 belongs to the brokers"),
        ("topics:\n  '%RETRY%g': 1", ":2:15: topic %RETRY%g belongs to the brokers"),
        ("topics:\n  A:\n    messages:\n      - ok\n      - 5", ":5:9: the value of "
         "topics.A.messages[1] does not fit"),
        ("topics:\n  A:\n    messages:\n      - {bod: x}", ":4:10: unknown key 'bod'; did"),
        ("topics:\n  A:\n    messages:\n      - ''", ":4:9: the body is empty"),
        ("topics:\n  A:\n    messages:\n      - {body: x, keys: [a b]}", ":4:9: a key is empty"),
        ("topics: {A: {file: none.jsonl}}", "none.jsonl cannot be read: No such file"),
        ("topics: {A: {file: bad.jsonl}}", "bad.jsonl:2: unknown field 'bdy'; did you mean"),
        ("groups:\n  g: {offsets: {A: latest}}", ":2:20: topic A is not in this file"),
        ("topics: {A: 1}\ngroups:\n  g: {offsets: {A: first}}", ":3:20: the value of "
         "groups.g.offsets.A does not fit"),
        ("groups:\n  g: {retryTimes: x}", ":2:19: the value of groups.g.retryTimes does not fit"),
        ("groups:\n  a b:", "The specified group: a b"),
        ("topics: [A", "this is no YAML"),
        ("- topics", ":1:1: expected object"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_seed_is_told_with_its_place(
    tmp_path: Path, text: str, told: str
) -> None:
    path = tmp_path / "seed.yaml"
    path.write_text(text)
    (tmp_path / "bad.jsonl").write_text('{"body": "x"}\n{"bdy": "x"}')
    with pytest.raises(ConfigError) as refused:
        read_seed(path)
    assert told in str(refused.value)
    assert str(tmp_path) in str(refused.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("topics:\n  A: {brokers: {broker-z: }}", ":2:26: there is no broker broker-z; this "
         "cluster has broker-a"),
        ("topics:\n  A:\n    messages:\n    - {body: x, queue: 9}", ":4:7: topic A has no queue "
         "broker-a:9"),
        ("topics:\n  A: 1\ngroups:\n  g:\n    offsets: {A: {broker-a: {0: 1}}}", ":5:33: offset 1 "
         "is behind the end of A@broker-a:0, which is 0"),
        ("topics:\n  A: 1\ngroups:\n  g:\n    offsets: {A: {broker-a: {7: 0}}}", ":5:33: "
         "A@broker-a:7 does not exist"),
    ],
)  # fmt: skip
def test_a_seed_that_does_not_fit_the_cluster_is_told_with_its_place(
    tmp_path: Path, text: str, told: str
) -> None:
    path = tmp_path / "seed.yaml"
    path.write_text(text)
    with LocalCluster() as cluster:
        with pytest.raises(ConfigError) as refused:
            cluster.thread.run(apply_seed(read_seed(path), cluster.namesrv))
        assert told in str(refused.value)
        path.write_text("topics: {A: {messages: [a, b]}}")  # once it is mended, all is loaded
        cluster.thread.run(apply_seed(read_seed(path), cluster.namesrv))
        assert sorted(cluster.stored("A").bodies) == [b"a", b"b"]


@pytest.mark.process
def test_up_is_printed_when_the_seed_is_there(seed_file: Path, tmp_path: Path) -> None:
    seeded = ("--seed", str(seed_file), "--brokers", "2")
    with pocketmq_cluster(tmp_path / "data", *seeded) as running:
        written = ok("snapshot", "--messages", "10", "--namesrv", running.namesrv)
    assert without_ids(yaml.safe_load(written)) == yaml.safe_load(SNAPSHOT)


def test_a_wrong_seed_starts_nothing(here: Command, tmp_path: Path) -> None:
    path = tmp_path / "seed.yaml"
    path.write_text("topics:\n  A: {queue: 2}")
    options = ("up", "--namesrv-port", "0", "--broker-port", "0", "--data", str(tmp_path / "data"))
    code, out, errors = here(*options, "--seed", str(path))
    assert (code, out) == (2, "")
    assert f"{path}:2:7: unknown key 'queue'" in errors
    assert not (tmp_path / "data").exists()
    path.write_text("topics:\n  A: {brokers: {broker-b: }}")
    done = pocketmq(*options, "--seed", str(path))
    assert (done.returncode, done.stdout) == (2, "")
    assert "there is no broker broker-b" in done.stderr
    code, _, errors = here(*options, "--seed", str(tmp_path / "none.yaml"))
    assert code == 2
    assert "does not exist" in errors


def test_the_example_of_the_documentation_is_what_it_says(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / "seed.md").read_text(encoding="utf-8")
    example = text.split("```yaml\n")[1].split("```")[0]
    path = tmp_path / "cluster.yaml"
    path.write_text(example)
    (tmp_path / "orders.jsonl").write_text('{"body": "from the file"}')
    with LocalCluster(brokers=2, seed_file=path) as cluster:
        assert sorted(cluster.stored("Orders").bodies) == [
            b"\x00\xff", b"from the file", b"just a body", b"second",
        ]  # fmt: skip
        taken = snapshot(cluster, 0)
        assert taken["topics"].keys() == yaml.safe_load(example)["topics"].keys()
        assert taken["topics"]["Regional"]["brokers"]["broker-b"] == {"queues": 8}
        assert taken["groups"]["billing"]["retryTimes"] == 3


def test_a_seed_is_checked_and_applied_by_hand(
    here: Command, two: tuple[Cluster, Cluster], tmp_path: Path
) -> None:
    path = tmp_path / "seed.yaml"
    path.write_text("topics: {ByHand: {queues: 1, messages: [x]}}\ngroups: [g]\n")
    code, out, errors = here("seed", "check", str(path))
    assert (code, out, errors) == (0, "", f"{path}: 1 topic, 1 group, all sound")
    names = ("--namesrv", two[0].namesrv)
    for loaded in (1, 0):
        code, out, _ = here("seed", "apply", str(path), "-o", "json", *names)
        assert (code, json.loads(out)) == (0, [{"topics": 1, "groups": 1, "messages": loaded}])
    taken = here("snapshot", "-o", "json", "--messages", "1", *names)[1]
    assert json.loads(taken)["topics"]["ByHand"]["messages"][0]["body"] == "x"
    assert here("snapshot", "-o", "xml", *names)[0] == 2
    path.write_text("topics: {A: {file: .}}")
    assert here("seed", "check", str(path))[0] == 2


def test_the_schema_knows_every_key(here: Command) -> None:
    schema = json.loads(here("seed", "schema")[1])
    assert set(schema["$defs"]["TopicSeed"]["properties"]) == {
        "queues", "readQueues", "writeQueues", "perm", "order", "type", "attributes", "brokers",
        "messages", "file",
    }  # fmt: skip
    assert schema["$defs"]["SeedDocument"]["additionalProperties"] is False


async def test_an_admin_tells_an_offset_that_was_never_stored() -> None:
    async with LocalCluster(topics={"T": 1}, groups=["g"]) as cluster:
        queue = MessageQueue("T", "broker-a", 0)
        async with Admin(cluster.namesrv) as admin:
            assert await admin.committed_offset("g", queue) is None
            await admin.commit_offset("g", queue, 0)
            assert await admin.committed_offset("g", queue) == 0
