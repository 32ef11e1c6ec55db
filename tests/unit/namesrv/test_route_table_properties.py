"""Whatever brokers do in whatever order, the tables stay true to each other.

Invariants: an address in a route has a sign of life, so it can expire; no topic is without queues,
no broker name without an address, no cluster without a broker name; both directions of the topic
table agree; and where the generation is the same as before, so are all answers.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from support.namesrv.builders import CLUSTER, NOW_MS, registration

from pocketmq.namesrv.broker_registration import BrokerKey
from pocketmq.namesrv.route_table import RouteTable
from pocketmq.protocol.errors import ResponseError

NAMES = ("a", "b", "c")
ADDRESSES = ("h1:1", "h2:1", "h3:1", "h4:1")
TOPICS = ("T1", "T2", "T3", "T4")

registrations = st.fixed_dictionaries(
    {
        "name": st.sampled_from(NAMES),
        "address": st.sampled_from(ADDRESSES),
        "broker_id": st.integers(0, 2),
        "topics": st.sets(st.sampled_from(TOPICS), min_size=1),
        "version": st.integers(1, 3),
        "state_version": st.integers(0, 1),
        "acting_master": st.sampled_from([None, False, True]),
        "channel": st.integers(0, 2),
        "drops": st.booleans(),
    }
)
steps = st.one_of(
    st.tuples(st.just("register"), registrations),
    st.tuples(st.just("unregister"), st.tuples(st.sampled_from(ADDRESSES), st.sampled_from(NAMES))),
    st.tuples(st.just("close"), st.integers(0, 2)),
    st.tuples(st.just("wait"), st.integers(0, 150_000)),
    st.tuples(st.just("wipe"), st.sampled_from(NAMES)),
    st.tuples(st.just("delete"), st.sampled_from(TOPICS)),
)


class Run:
    def __init__(self) -> None:
        self.table = RouteTable()
        self.now_ms = NOW_MS

    def step(self, kind: str, data: object) -> None:
        table = self.table
        if kind == "register":
            assert isinstance(data, dict)
            self._register(**data)
        elif kind == "unregister":
            assert isinstance(data, tuple)
            table.unregister(BrokerKey(CLUSTER, data[0]), data[1])
        elif kind == "close":
            table.connection_closed(data)
        elif kind == "wait":
            assert isinstance(data, int)
            self.now_ms += data
            list(table.expire(self.now_ms))
        elif kind == "wipe":
            table.wipe_write_perm(str(data))
        else:
            table.delete_topic(str(data))

    def _register(self, name: str, topics: set[str], drops: bool, **fields: object) -> None:
        broker = registration(name, *sorted(topics), **fields)  # type: ignore[arg-type]
        try:
            self.table.register(broker, self.now_ms, drops_other_topics=drops)
        except ResponseError:
            assert len(topics) == 1

    def answers(self) -> object:
        routes = [self.table.route(topic) for topic in TOPICS]
        return [r and r.encode() for r in routes], self.table.cluster_info().encode()

    def check(self) -> None:
        table = self.table
        info = table.cluster_info()
        named = [name for names in info.cluster_addr_table.values() for name in names]
        assert sorted(named) == sorted(info.broker_addr_table)
        owners: dict[str, str] = {}
        for name, data in info.broker_addr_table.items():
            assert data.broker_addrs
            for address in data.broker_addrs.values():
                assert owners.setdefault(address, name) == name
                assert table.version_of(BrokerKey(CLUSTER, address)) is not None
            assert len(set(data.broker_addrs.values())) == len(data.broker_addrs)
        pairs = {(t, q.broker_name) for t in table.topics.topics() for q in table.topics.queues(t)}
        assert {t for t, _ in pairs} == set(table.topics.topics())
        assert {b for _, b in pairs} <= set(info.broker_addr_table)
        assert pairs == {(t, b) for b in NAMES for t in table.topics.topics_of([b])}


@given(st.lists(steps, max_size=30))
def test_the_tables_agree_after_every_step(script: list[tuple[str, object]]) -> None:
    run = Run()
    for kind, data in script:
        generation, answers = run.table.generation, run.answers()
        run.step(kind, data)
        run.check()
        if run.table.generation == generation:
            assert run.answers() == answers


@given(st.lists(steps, max_size=30))
def test_nothing_is_left_when_all_are_silent(script: list[tuple[str, object]]) -> None:
    run = Run()
    for kind, data in script:
        run.step(kind, data)
    run.step("wait", 150_000)
    assert run.table.topics.topics() == []
    assert run.table.system_topics() == []
    assert not list(run.table.expire(run.now_ms + 1_000_000))
