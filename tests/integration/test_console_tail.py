"""The console's live tail: exact counts, filters, ends, limits, and clients that do not read."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
from support.brokers.console_parts import API, Consoled, consoled
from support.brokers.timed_console import Timed, timed

from pocketmq.client import Message, MessageQueue
from pocketmq.console.api.tails.bodies import SHOWN_MAX
from pocketmq.console.api.tails.positions import Arrived, Positions, shares
from pocketmq.console.api.tails.tail import BEAT_S, PAUSE_S, SHOWN_CHARACTERS, beginning
from pocketmq.console.api.tails.tail_calls import TAILS_MAX
from pocketmq.console.web.streams import UNREAD_S
from pocketmq.protocol.errors import UsageError
from pocketmq.testing import Cluster


class Tail:
    """A tail that is read event by event."""

    def __init__(self, console: Timed, topic: str, **query: Any) -> None:
        self.console = console
        text = "&".join(f"{name}={quote(str(value))}" for name, value in query.items())
        self._connection = http.client.HTTPConnection(console.server.address, timeout=30)
        self._connection.request("GET", f"{API}/topics/{topic}/tail?{text}")
        self._answer = self._connection.getresponse()
        console.opened += [self._answer.close, self._connection.close]
        assert self._answer.status == 200, self._answer.read()
        assert self._answer.headers.get_content_type() == "text/event-stream"
        self.first = self.read()

    def line(self) -> str:
        return self._answer.readline().decode().rstrip("\n")

    def read(self) -> Any:
        while not (line := self.line()).startswith("data: "):
            assert line in ("", ": "), line
        batch = msgspec.json.decode(line.removeprefix("data: "))
        shown = len(batch["messages"])
        assert batch["arrived"] == shown + batch["notShown"] + batch["notFitting"]
        return batch

    def next(self) -> Any:
        """The batch of the next look."""
        self.console.advance(PAUSE_S)
        return self.read()

    def close(self) -> None:
        self._answer.close()
        self._connection.close()


@pytest.fixture(scope="module")
def shared() -> Iterator[Consoled]:
    with consoled(brokers=2, topics={"Orders": 2, "Other": 1}) as running:
        yield running


@pytest.fixture
def console(shared: Consoled) -> Iterator[Timed]:
    with timed(shared.cluster) as running:
        yield running


def send(cluster: Cluster, *messages: Message) -> None:
    with cluster.producer() as producer:
        for message in messages:
            producer.send(message)


def numbered(count: int, topic: str = "Orders") -> list[Message]:
    return [
        Message(topic, f"body {number}".encode(), keys=[f"k{number}"], tags="abcd"[number % 4])
        for number in range(count)
    ]


def test_what_is_not_shown_is_counted_exactly(shared: Consoled, console: Timed) -> None:
    send(shared.cluster, *numbered(3))
    tail = Tail(console, "Orders")
    assert (tail.first["messages"], tail.first["arrived"]) == ([], 0)
    send(shared.cluster, *numbered(5))
    few = tail.next()
    assert (few["arrived"], few["notShown"]) == (5, 0)
    assert sorted(message["body"] for message in few["messages"]) == [
        f"body {number}" for number in range(5)
    ]
    send(shared.cluster, *numbered(170))
    many = tail.next()
    assert (many["arrived"], many["notShown"], many["notFitting"]) == (170, 120, 0)
    assert len(many["messages"]) == SHOWN_MAX
    newest = {f"body {number}" for number in range(170 - SHOWN_MAX - 4, 170)}
    assert {message["body"] for message in many["messages"]} <= newest
    stored = [message["storedMs"] for message in many["messages"]]
    assert stored == sorted(stored)
    tail.close()


def test_a_tail_goes_on_where_another_one_stopped(shared: Consoled, console: Timed) -> None:
    tail = Tail(console, "Orders")
    send(shared.cluster, *numbered(2))
    cursor = tail.next()["cursor"]
    tail.close()
    send(shared.cluster, *numbered(7))
    again = Tail(console, "Orders", cursor=cursor, limit=4).next()
    assert (again["arrived"], len(again["messages"]), again["notShown"]) == (7, 4, 3)
    problem = console.api.problem("GET", f"{API}/topics/Orders/tail?cursor=nothing")
    assert (problem["status"], "cursor" in problem["detail"]) == (400, True)


@pytest.mark.parametrize(
    ("query", "fitting"),
    [
        ({"tag": "b"}, 30),
        ({"where": "TAGS = 'b' OR TAGS = 'c'"}, 60),
        ({"where": "TAGS = 'b' OR TAGS = 'c'", "tag": "c"}, 30),
    ],
)
def test_brokers_look_for_what_fits(
    shared: Consoled, console: Timed, query: dict[str, str], fitting: int
) -> None:
    tail = Tail(console, "Orders", **query)
    send(shared.cluster, *numbered(120))
    batch = tail.next()
    assert len(batch["messages"]) == min(fitting, SHOWN_MAX)
    assert batch["notShown"] == 0 or fitting > SHOWN_MAX
    assert {message["tag"] for message in batch["messages"]} <= set("bc")
    assert batch["arrived"] == 120
    tail.close()


def test_a_condition_that_is_none_is_refused(console: Timed) -> None:
    path = f"{API}/topics/Orders/tail?where={quote('a >')}"
    assert console.api.problem("GET", path)["status"] == 400
    assert console.api.problem("GET", f"{API}/topics/Nobody/tail")["status"] == 404
    assert console.api.problem("GET", f"{API}/topics/Orders/tail?seconds=-1")["status"] == 400
    assert console.server.tails.count == 0


def test_a_tail_ends_after_its_time(console: Timed) -> None:
    tail = Tail(console, "Orders", seconds=60)
    console.advance(BEAT_S + PAUSE_S)
    assert (tail.line(), tail.line(), tail.line()) == ("", ": ", "")
    console.advance(60)
    last = tail.read()
    assert (last["ended"], last["why"]) == ("time", "a tail goes on for 60 s")
    assert tail.line() == tail.line() == ""


def test_a_tail_ends_with_its_topic(shared: Consoled, console: Timed) -> None:
    shared.cluster.create_topic("Brief", 1)
    tail = Tail(console, "Brief")
    with shared.cluster.admin() as admin:
        admin.delete_topic("Brief")
    console.advance(10)
    last = tail.read()
    assert last["ended"] == "topic"


def test_a_tail_ends_with_the_console(shared: Consoled) -> None:
    with timed(shared.cluster) as console:
        tail = Tail(console, "Orders")
        console.server.tails.stop()
        assert tail.read()["ended"] == "stop"


def test_a_broker_that_is_down_does_not_end_a_tail(shared: Consoled, console: Timed) -> None:
    tail = Tail(console, "Orders")
    address = shared.cluster.brokers["broker-b"]
    with shared.cluster.faults.kill("broker-b"):
        batch = tail.next()
        (problem,) = batch["problems"]
        assert address in problem
        send(shared.cluster, *numbered(4))
        console.advance(PAUSE_S)
        while not (batch := tail.read())["arrived"]:
            pass
        assert {message["broker"] for message in batch["messages"]} == {"broker-a"}
    tail.close()


def test_so_many_tails_and_no_more(console: Timed) -> None:
    tails = [Tail(console, "Other") for _ in range(TAILS_MAX)]
    problem = console.api.problem("GET", f"{API}/topics/Other/tail")
    assert (problem["status"], problem["title"]) == (503, "Too many tails")
    tails.pop().close()
    console.advance(BEAT_S)
    while console.server.tails.count == TAILS_MAX:
        console.advance(PAUSE_S)
    tails.append(Tail(console, "Other"))
    for tail in tails:
        tail.close()


def test_bodies_stay_hidden_where_they_shall(shared: Consoled) -> None:
    with timed(shared.cluster, no_bodies=True) as console:
        tail = Tail(console, "Orders")
        send(shared.cluster, *numbered(1))
        (message,) = tail.next()["messages"]
        assert (message["body"], message["keys"], message["size"]) == (None, "k0", 6)
        tail.close()


def test_a_client_that_does_not_read_costs_nothing(shared: Consoled, console: Timed) -> None:
    """Looks stop with the reading: what came meanwhile is one batch, and counted."""
    host, _, port = console.server.address.rpartition(":")
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect((host, int(port)))
        client.sendall(f"GET {API}/topics/Orders/tail HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        while console.server.tails.count == 0:
            console.advance(0)
        large = [Message("Orders", b"x" * 1000) for _ in range(SHOWN_MAX)]
        unread_s = 0.0
        with shared.cluster.producer() as producer:
            while console.server.tails.count and unread_s < 20 * UNREAD_S:
                for message in large:
                    producer.send(message)
                for _ in range(20):
                    console.advance(PAUSE_S)
                    unread_s += PAUSE_S
        assert console.server.tails.count == 0


# -- parts ----------------------------------------------------------------------------------------


def test_shares_are_even_and_never_more_than_there_is() -> None:
    assert shares([10, 10, 10], 9) == [3, 3, 3]
    assert shares([1, 100, 2], 50) == [1, 47, 2]
    assert shares([1, 1, 1, 1], 2) == [1, 1, 0, 0]
    assert shares([], 50) == []
    for counts in ([5, 0, 7, 90, 3], [2] * 80):
        given = shares(counts, 50)
        assert sum(given) == min(50, sum(counts))
        assert all(share <= count for share, count in zip(given, counts, strict=True))


def test_positions_of_queues_that_come_go_and_begin_anew() -> None:
    first, second = MessageQueue("T", "a", 0), MessageQueue("T", "a", 1)
    silent = MessageQueue("T", "b", 0)
    positions = Positions("T", {first: 10}, None)
    assert positions.move({first: 12, second: 3, silent: 90}) == [
        Arrived(first, 10, 12), Arrived(second, 0, 3),
    ]  # fmt: skip
    assert positions.move({first: 2, second: 3, silent: 91}) == [Arrived(silent, 90, 91)]
    assert positions.move({first: 3, second: 3}) == [Arrived(first, 2, 3)]
    cursor = positions.cursor()
    ends = {first: 5, second: 3, silent: 92}
    assert Positions("T", ends, cursor).move(ends) == [
        Arrived(first, 3, 5),
        Arrived(silent, 91, 92),
    ]
    many = {MessageQueue("T", "a", number): 1 for number in range(65)}
    assert Positions("T", many, None).cursor() is None
    with pytest.raises(UsageError, match="cursor"):
        Positions("T", ends, "[1]")


def test_the_beginning_of_a_body() -> None:
    assert beginning(b"short") == ("short", False)
    assert beginning(b"\xff\xfe") == (None, False)
    long = "ä€😀" * 1000
    assert beginning(long.encode()) == (long[:SHOWN_CHARACTERS], True)
    assert beginning("é".encode()[:1]) == (None, False)
