"""A console of a cluster of which a broker is dead, hangs or is cut off: it shows all others."""

from __future__ import annotations

import html
import http.client
from collections.abc import Iterator
from typing import Any

import pytest
from support.brokers.console_parts import API, Consoled, consoled

from pocketmq.client import Message

READS = (
    "/topics", "/topics/Orders", "/groups/billing", "/groups",
    "/topics/Orders/messages?start=earliest",
)  # fmt: skip
PAGES = ("/", *READS)


@pytest.fixture(scope="module")
def shared() -> Iterator[Consoled]:
    with consoled(brokers=2, topics={"Orders": 2}, groups=["billing"]) as running:
        with running.cluster.producer() as producer:
            for number in range(8):
                producer.send(Message("Orders", b"body", keys=[f"k{number}"]))
        with running.cluster.push_consumer("billing", listener=lambda _: None) as consumer:
            consumer.subscribe("Orders")
            running.cluster.drain("billing")
        for path in READS:
            assert running.api.ok("GET", API + path)["silent"] == []
        yield running


def page(running: Consoled, path: str) -> str:
    connection = http.client.HTTPConnection(running.server.address, timeout=60)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        assert answer.status == 200, path
        return html.unescape(answer.read().decode())
    finally:
        connection.close()


def of_a(found: Any) -> set[str]:
    """The brokers of the rows that were found."""
    return {queue["broker"] for queue in found.get("queues", ())}


def check_all(running: Consoled) -> None:
    """Broker-a's rows are shown everywhere, and broker-b is named with its problem."""
    for path in READS:
        found = running.api.ok("GET", API + path)
        assert [each["broker"] for each in found["silent"]] == ["broker-b"], path
        assert found["silent"][0]["problem"]
        assert of_a(found) <= {"broker-a"}
    for path in ("/topics/Orders", "/groups/billing", "/topics/Orders/messages?start=earliest"):
        assert of_a(running.api.ok("GET", API + path)) == {"broker-a"}, path
    assert "What broker-b holds is missing here" in page(running, "/topics/Orders")


def test_a_broker_that_is_registered_no_more_is_missed(shared: Consoled) -> None:
    with shared.cluster.faults.partition("broker-b"):
        for path in ("/topics/Orders", "/groups/billing"):
            found = shared.api.ok("GET", API + path)
            assert [each["broker"] for each in found["silent"]] == ["broker-b"]
            assert "registered" in found["silent"][0]["problem"]
            assert of_a(found) == {"broker-a"}


def test_a_dead_broker_empties_no_page(shared: Consoled) -> None:
    with shared.cluster.faults.kill("broker-b"):
        check_all(shared)
        for path in PAGES:
            assert "What broker-b holds is missing here" in page(shared, path), path
    for path in READS:
        found = shared.api.ok("GET", API + path)
        assert found["silent"] == [], path
    assert of_a(shared.api.ok("GET", f"{API}/topics/Orders")) == {"broker-a", "broker-b"}


def test_a_broker_that_answers_nothing_is_left_out() -> None:
    with consoled(brokers=2, topics={"Orders": 2}, groups=["billing"]) as running:
        with running.cluster.producer() as producer:
            for _ in range(8):
                producer.send(Message("Orders", b"body"))
        for path in READS:
            running.api.ok("GET", API + path)
        with running.cluster.faults.pause("broker-b") as fault:
            for path in READS[1:]:  # the first one asks the name server only
                found = running.api.ok("GET", API + path)
                assert [each["broker"] for each in found["silent"]] == ["broker-b"], path
            asked = fault.count
            assert asked
            again = running.api.ok("GET", f"{API}/topics/Orders")
            assert [each["broker"] for each in again["silent"]] == ["broker-b"]
            assert fault.count == asked  # it is not asked at each look
            shown = {
                b["name"]: b["problem"] for b in running.api.ok("GET", f"{API}/cluster")["brokers"]
            }
            assert shown.pop("broker-a") is None
            assert "no answer" in shown["broker-b"]
            assert "missing here: no answer" in page(running, "/topics/Orders")


def test_what_changes_something_leaves_nobody_out(shared: Consoled) -> None:
    with shared.cluster.faults.close_connection(broker="broker-b"):
        refused = shared.api.problem("POST", f"{API}/topics/Anew", {"queues": 1})
        assert refused["status"] == 503
        assert shared.cluster.brokers["broker-b"] in refused["detail"]
