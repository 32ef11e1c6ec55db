"""The tables beside a model that is as plain as can be: rows of (topic, broker name), no index.

Two route tables go along: one reads each registration, the other one skips those that it takes for
the same again. And two kinds of answers: kept and put together from parts, or encoded from scratch.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from ipaddress import ip_address

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from support.namesrv.builders import CLUSTER, NOW_MS, key_of, registration, topic_config

from pocketmq.namesrv.broker_registration import BrokerKey, BrokerRegistration
from pocketmq.namesrv.config import NamesrvConfig
from pocketmq.namesrv.kv_config import KVConfig
from pocketmq.namesrv.route_answers import RouteAnswers
from pocketmq.namesrv.route_table import RouteTable
from pocketmq.namesrv.topic_queue_table import QueueCounts

NAMES = ("broker-a", "broker-b", "broker-c")
TOPICS = ("T1", "T2", "T3", "T4")
CALLERS = (None, ip_address("10.0.0.1"), ip_address("172.30.0.1"))
RULES = (
    None,
    json.dumps([{"addr": "inside:1", "callers": ["172.30.0.0/16"]}]),
    json.dumps([{"addr": "public:1"}]),
)
counts_of_topics = st.dictionaries(st.sampled_from(TOPICS), st.sampled_from((4, 8)), min_size=2)
registrations: st.SearchStrategy[dict[str, object]] = st.builds(
    dict,
    name=st.sampled_from(NAMES),
    queues=counts_of_topics,
    version=st.integers(1, 3),
    drops=st.booleans(),
    advertise=st.sampled_from(RULES),
)
steps = st.one_of(
    st.tuples(st.just("register"), registrations),
    st.tuples(st.just("again"), st.sampled_from(NAMES)),
    st.tuples(st.just("change"), st.sampled_from(NAMES)),
    st.tuples(st.just("unregister"), st.sampled_from(NAMES)),
    st.tuples(st.just("wipe"), st.sampled_from(NAMES)),
    st.tuples(st.just("delete"), st.sampled_from(TOPICS)),
)


@dataclass
class Model:
    """What masters have registered; each broker name has one address."""

    rows: dict[tuple[str, str], QueueCounts] = field(default_factory=dict)
    versions: dict[str, object] = field(default_factory=dict)

    def register(self, broker: BrokerRegistration, *, drops: bool) -> None:
        name = broker.broker_name
        named = {topic.topic_name for topic in broker.topics}
        if drops:
            self.rows = {
                row: counts
                for row, counts in self.rows.items()
                if row[1] != name or row[0] in named
            }
        is_changed = self.versions.get(name) != broker.version
        for topic in broker.topics:
            if is_changed or (topic.topic_name, name) not in self.rows:
                self.rows[topic.topic_name, name] = QueueCounts(
                    topic.read_queue_nums, topic.write_queue_nums, topic.perm, topic.topic_sys_flag
                )
        self.versions[name] = broker.version

    def unregister(self, name: str) -> None:
        self.versions.pop(name, None)
        self.rows = {row: counts for row, counts in self.rows.items() if row[1] != name}

    def wipe(self, name: str) -> None:
        for row, counts in self.rows.items():
            if row[1] == name:
                self.rows[row] = msgspec.structs.replace(counts, perm=counts.perm & ~2)

    def queues(self, topic: str) -> list[tuple[str, QueueCounts]]:
        held = {row[1]: counts for row, counts in self.rows.items() if row[0] == topic}
        return [(name, held[name]) for name in sorted(held)]


@dataclass
class Sent:
    """A registration as it was sent last, to be sent again."""

    broker: BrokerRegistration
    drops: bool


class Run:
    def __init__(self) -> None:
        self.model, self.reading, self.skipping = Model(), RouteTable(), RouteTable()
        self.skipped = 0
        self.sent: dict[str, Sent] = {}
        self.kept = RouteAnswers(self.skipping, KVConfig(), NamesrvConfig())

    def step(self, kind: str, data: object) -> None:
        if kind == "register":
            assert isinstance(data, dict)
            self._register(**data)
        elif kind == "again":
            if (sent := self.sent.get(str(data))) is not None:
                self._send(sent)
        elif kind == "change":
            self._change(str(data))
        elif kind == "unregister":
            for table in (self.reading, self.skipping):
                table.unregister(key_of(str(data)), "")
            self.model.unregister(str(data))
        elif kind == "wipe":
            for table in (self.reading, self.skipping):
                table.wipe_write_perm(str(data))
            self.model.wipe(str(data))
        else:
            for table in (self.reading, self.skipping):
                table.delete_topic(str(data))
            self.model.rows = {r: c for r, c in self.model.rows.items() if r[0] != data}

    def _register(
        self, name: str, queues: dict[str, int], version: int, drops: bool, advertise: str | None
    ) -> None:
        configs = [topic_config(topic, count) for topic, count in sorted(queues.items())]
        broker = registration(name, *configs, version=version, advertise=advertise)
        broker.digest = repr((broker.version, broker.topics)).encode()
        self._send(Sent(broker, drops))

    def _change(self, name: str) -> None:
        """One topic of a known broker changes, which is all that the broker sends."""
        if (sent := self.sent.get(name)) is None or name not in self.model.versions:
            return
        version = sent.broker.version.next(NOW_MS)
        one = registration(name, topic_config("T1", 16))
        one.version, one.is_partial, one.advertised = version, True, sent.broker.advertised
        for table in (self.reading, self.skipping):
            table.register(one, NOW_MS)
        self.model.register(one, drops=False)

    def _send(self, sent: Sent) -> None:
        broker = sent.broker
        self.sent[broker.broker_name] = sent
        self.model.register(broker, drops=sent.drops)
        self.reading.register(broker, NOW_MS, drops_other_topics=sent.drops)
        is_same = self.skipping.is_same_again(broker, drops_other_topics=sent.drops)
        self.skipped += is_same
        self.skipping.register(broker, NOW_MS, drops_other_topics=sent.drops, is_same_again=is_same)

    def check(self) -> None:
        scratch = RouteAnswers(self.reading, KVConfig(), NamesrvConfig())
        for topic in TOPICS:
            expected = self.model.queues(topic)
            assert self.reading.topics.counts(topic) == expected
            assert self.skipping.topics.counts(topic) == expected
            for caller in CALLERS:
                for quote_keys in (False, True):
                    route = scratch._route(topic, caller, "")
                    encoded = None if route is None else route.encode(quote_keys=quote_keys)
                    kept = self.kept.topic(topic, caller, quote_keys=quote_keys)
                    assert kept == encoded
        for name in NAMES:
            theirs = {topic for topic, broker in self.model.rows if broker == name}
            assert set(self.skipping.topics.topics_of([name])) == theirs


@given(st.lists(steps, max_size=25))
def test_tables_and_answers_are_those_of_the_model(script: list[tuple[str, object]]) -> None:
    run = Run()
    for kind, data in script:
        run.step(kind, data)
        run.check()


def test_the_same_registration_again_is_skipped_until_something_else_was_done() -> None:
    run = Run()
    first = {"name": "broker-a", "queues": {"T1": 4, "T2": 4}, "version": 1, "drops": False}
    run.step("register", first | {"advertise": None})
    for skipped, kind, data in (
        (1, "again", "broker-a"),
        (2, "again", "broker-a"),
        (2, "delete", "T2"),
        (2, "again", "broker-a"),
        (3, "again", "broker-a"),
        (3, "wipe", "broker-a"),
        (4, "again", "broker-a"),
        (4, "change", "broker-a"),
        (4, "again", "broker-a"),
        (5, "again", "broker-a"),
        (5, "unregister", "broker-a"),
        (5, "again", "broker-a"),
        (6, "again", "broker-a"),
    ):
        run.step(kind, data)
        run.check()
        assert run.skipped == skipped, (kind, data)


def test_the_same_topics_under_another_id_are_read() -> None:
    table = RouteTable()
    slave = registration(broker_id=1, acting_master=True)
    slave.digest = b"digest"
    table.register(registration(broker_id=0, address="master:1"), NOW_MS)
    table.register(slave, NOW_MS)
    assert table.is_same_again(slave, drops_other_topics=False)
    table.unregister(BrokerKey(CLUSTER, "master:1"), "")
    assert not table.is_same_again(slave, drops_other_topics=False), "now its topics count"
    unknown = registration("broker-x")
    unknown.digest = b"digest"
    assert not table.is_same_again(unknown, drops_other_topics=False)
