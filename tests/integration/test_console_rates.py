"""The console's figures of topics, and rates over time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.brokers.console_parts import API, Consoled, consoled
from support.brokers.control_parts import Control
from support.brokers.timed_console import Timed, timed

from pocketmq.client import Message
from pocketmq.console.api.rates.bodies import Sample
from pocketmq.console.api.rates.history import SPAN_S, STEP_S, History
from pocketmq.console.api.rates.rate_calls import HISTORIES_MAX
from pocketmq.testing import Cluster


@pytest.fixture(scope="module")
def shared() -> Iterator[Consoled]:
    topics = {"Orders": 2, **{f"T{number}": 1 for number in range(HISTORIES_MAX + 1)}}
    with consoled(brokers=2, topics=topics, groups=["billing"]) as running:
        yield running


@pytest.fixture
def console(shared: Consoled) -> Iterator[Timed]:
    with timed(shared.cluster) as running:
        yield running


def send(cluster: Cluster, count: int, topic: str = "Orders") -> None:
    with cluster.producer() as producer:
        for _ in range(count):
            producer.send(Message(topic, b"body"))


def consume(cluster: Cluster) -> None:
    with cluster.push_consumer("billing", listener=lambda _: None) as consumer:
        consumer.subscribe("Orders")
        cluster.drain("billing")


def points(api: Control, query: str = "") -> Any:
    return api.ok("GET", f"{API}/rates{query}")["points"]


def stepped(console: Timed, query: str = "") -> Any:
    """The points after the next step."""
    before = points(console.api, query)
    console.advance(STEP_S)
    while len(after := points(console.api, query)) == len(before):
        console.advance(0)
    return after


# -- the list of topics ---------------------------------------------------------------------------


def test_topics_with_their_figures(shared: Consoled) -> None:
    send(shared.cluster, 8)
    consume(shared.cluster)
    shown = shared.api.ok("GET", f"{API}/topics?figures=true&contains=Orders")
    (row,) = shown["topics"]
    assert (row["queues"], row["messages"]) == (4, 8)
    assert row["size"] > 8 * len(b"body")
    assert row["inRate"] > 0
    assert row["outRate"] > 0
    (plain,) = shared.api.ok("GET", f"{API}/topics?contains=Orders")["topics"]
    assert plain["queues"] is plain["size"] is plain["inRate"] is None


def test_a_broker_that_is_down_does_not_empty_the_list(shared: Consoled) -> None:
    with shared.cluster.faults.kill("broker-b"):
        shown = shared.api.ok("GET", f"{API}/topics?figures=true&contains=Orders")
    (row,) = shown["topics"]
    assert row["queues"] == 2
    assert [silent["broker"] for silent in shown["silent"]] == ["broker-b"]


def test_brokers_that_know_no_figures_are_asked_for_queues(shared: Consoled) -> None:
    with shared.cluster.faults.answer("REQUEST_CODE_NOT_SUPPORTED", request="TOPIC_FIGURES"):
        (row,) = shared.api.ok("GET", f"{API}/topics?figures=true&contains=Orders")["topics"]
        assert row["queues"] == 4
        assert row["messages"] >= 8
        assert row["size"] is row["inRate"] is row["outRate"] is None
        assert points(shared.api, "?topic=Orders") == []


# -- rates over time ------------------------------------------------------------------------------


def test_rates_of_topics_groups_and_the_cluster(shared: Consoled, console: Timed) -> None:
    queries = ("", "?topic=Orders", "?group=billing")
    for query in queries:
        assert points(console.api, query) == []
    consume(shared.cluster)
    for query in queries:
        stepped(console, query)
    send(shared.cluster, 20)
    (left,) = [point["left"] for point in stepped(console, "?group=billing")[-1:]]
    assert left == 20
    for query in queries:
        last = points(console.api, query)[-1]
        assert (last["inRate"], last["outRate"]) == (20 / STEP_S, 0.0), query
    consume(shared.cluster)
    assert stepped(console, "?group=billing")[-1]["outRate"] == 20 / STEP_S
    assert points(console.api, "?topic=Orders")[-1]["outRate"] == 20 / STEP_S
    assert points(console.api, "?topic=Orders")[-1]["inRate"] == 0.0


def test_what_does_not_exist_has_no_rates(console: Timed) -> None:
    assert console.api.problem("GET", f"{API}/rates?topic=Nobody")["status"] == 404
    assert console.api.problem("GET", f"{API}/rates?group=nobody")["status"] == 404
    assert console.api.problem("GET", f"{API}/rates?group=billing&topic=Orders")["status"] == 400
    assert console.server.rates.count == 0


def test_histories_are_so_many_and_end_when_nobody_asks(shared: Consoled, console: Timed) -> None:
    for number in range(HISTORIES_MAX + 1):
        points(console.api, f"?topic=T{number}")
    assert console.server.rates.count == HISTORIES_MAX
    console.advance(SPAN_S / 2)
    points(console.api, "?topic=T9")
    console.advance(SPAN_S / 2 + 2 * STEP_S)
    while console.server.rates.count != 1:
        console.advance(STEP_S)
    assert 0 < len(points(console.api, "?topic=T9")) <= SPAN_S / STEP_S


def test_steps_without_an_answer_and_counters_that_begin_anew() -> None:
    history = History(Sample(stored={"a": 10, "b": 5}, gone={"a": 3}), 0)
    history.take(Sample(stored={"a": 20, "b": 1}, gone={}), 5, 1000)
    history.take(None, 10, 2000)
    history.take(Sample(stored={"a": 40, "c": 900}, gone={"a": 7}, left=4), 15, 3000)
    shown = [(p.time_ms, p.in_rate, p.out_rate, p.left) for p in history.points]
    assert shown == [(1000, 2.0, None, None), (2000, None, None, None), (3000, 2.0, None, 4)]
