"""`pocketmq dlq …`, run as people run it: dead letters are found, explained, edited, sent again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.commands.here import Command, here, ok

from pocketmq.client import Message, ReceivedMessage, blocking
from pocketmq.protocol.bodies.clients import CONSUME_FROM_FIRST_OFFSET
from pocketmq.testing import Cluster, LocalCluster

__all__ = ["here"]

GROUP = "billing"
BODIES = (b'{"order": 1, "price": "7"}', b'{"order": 2, "price": "8"}', b"no json")


class Billing:
    """A listener that needs prices which are numbers."""

    def __init__(self) -> None:
        self.prices: list[float] = []

    def __call__(self, messages: list[ReceivedMessage]) -> None:
        for message in messages:
            price = json.loads(message.body)["price"]
            if not isinstance(price, int):
                raise TypeError(f"the price is {price!r}")
            self.prices.append(price)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with LocalCluster(brokers=2, topics={"Orders": 2}, groups=[GROUP]) as cluster:
        with blocking.Producer("p", cluster.namesrv) as producer:
            for number, body in enumerate(BODIES):
                producer.send(Message("Orders", body, keys=f"o{number}"))
        with _consumer(cluster, Billing(), max_reconsume_times=0):
            cluster.drain(GROUP)
        assert len(cluster.dead_letters(GROUP)) == len(BODIES)
        yield cluster


def _consumer(cluster: Cluster, listener: Any, **settings: Any) -> blocking.PushConsumer:
    consumer = blocking.PushConsumer(
        GROUP, cluster.namesrv, listener=listener, consume_from_where=CONSUME_FROM_FIRST_OFFSET,
        **settings,
    )  # fmt: skip
    consumer.subscribe("Orders")
    return consumer


def rows(cluster: Cluster, *words: str) -> Any:
    return json.loads(ok("dlq", *words, "-o", "json", "--namesrv", cluster.namesrv))


def test_a_message_that_failed_is_found_edited_and_sent_again(
    cluster: Cluster, here: Command
) -> None:
    names = ("--namesrv", cluster.namesrv)
    (listed,) = rows(cluster, "list")
    assert (listed["group"], listed["open"], listed["redriven"]) == (GROUP, 3, 0)
    assert listed["oldest"] <= listed["newest"]
    code, table, told = here("dlq", "show", GROUP, "--error", "TypeError", *names)
    assert (code, "2 of 2 dead letters shown; 3 looked at" in told) == (0, True)
    assert "1 TypeError: the price is '7'" in told
    assert "TypeError: the price is '8'" in table
    shown = rows(cluster, "show", GROUP)
    assert {letter["topic"] for letter in shown} == {"Orders"}
    assert {letter["body"] for letter in shown} == {body.decode() for body in BODIES}

    words = ("dlq", "redrive", GROUP, "--error", "the price is '7'", "--patch", '{"price": 7}',
             "--reason", "prices were text", *names)  # fmt: skip
    code, out, told = here(*words, "--dry-run")
    assert (code, out) == (0, "")
    assert '+ {"order":1,"price":7}' in told
    assert "nothing was done" in told
    code, _, told = here(*words)
    assert (code, "Say --yes" in told) == (2, True)  # nobody is there who could be asked
    assert rows(cluster, "list")[0]["open"] == 3
    code, out, told = here(*words, "--yes", "-o", "json")
    assert code == 0, told
    (redrive,) = json.loads(out)
    assert (redrive["state"], redrive["sent"], redrive["planned"]) == ("done", 1, 1)
    assert redrive["order"]["reason"] == "prices were text"
    listener = Billing()
    with _consumer(cluster, listener):
        cluster.drain(GROUP)
    assert listener.prices == [7]
    assert rows(cluster, "list")[0]["open"] == 2

    ok("dlq", "discard", GROUP, "--key", "o2", "--reason", "never was one", "--yes", *names)
    (listed,) = rows(cluster, "list")
    assert (listed["open"], listed["redriven"], listed["discarded"]) == (1, 1, 1)
    ok("dlq", "reopen", GROUP, "--yes", *names)
    assert rows(cluster, "list")[0]["discarded"] == 0
    states = {row["action"]: row["state"] for row in _status(cluster)}
    assert states == {"redrive": "done", "discard": "done", "reopen": "done"}


def _status(cluster: Cluster) -> list[dict[str, Any]]:
    return [
        {"action": redrive["order"]["action"], **redrive}
        for redrive in rows(cluster, "status", GROUP)
    ]


def test_what_was_refused_says_why(cluster: Cluster, here: Command) -> None:
    names = ("--namesrv", cluster.namesrv)
    code, _, told = here("dlq", "redrive", GROUP, "--patch", "{}", "--yes", *names)
    assert code == 1
    assert "1 refused of" in told or "1 sent, 1 refused of" in told
    redrive_id = _status(cluster)[0]["redriveId"]
    lines = ok("dlq", "results", GROUP, redrive_id, "--refused", "-o", "json", *names)
    (result,) = map(json.loads, lines.splitlines())
    assert (result["outcome"], result["toQueue"]) == ("refused", None)
    assert "no JSON" in result["reason"]
    table = ok("dlq", "results", GROUP, redrive_id, *names)
    assert table.count(" sent ") == 2


def test_a_redrive_is_paused_resumed_and_cancelled(cluster: Cluster, here: Command) -> None:
    names = ("--namesrv", cluster.namesrv)
    with blocking.Producer("p", cluster.namesrv) as producer:
        for _ in range(8):
            producer.send(Message("Orders", b"later"))
    with _consumer(cluster, Billing(), max_reconsume_times=0):
        cluster.drain(GROUP)
    ok("dlq", "redrive", GROUP, "--rate", "0.001", "--yes", "--detach", *names)
    while not all(row["sent"] for row in _status(cluster)):
        pass  # each broker sends the first one at once, and the next one after a quarter of an hour
    redrive_id = _status(cluster)[0]["redriveId"]
    active = len(_status(cluster))
    for change, state in (("pause", "paused"), ("resume", "running"), ("pause", "paused"),
                          ("cancel", "cancelled")):  # fmt: skip
        code, _, told = here("dlq", change, GROUP, redrive_id, *names)
        assert (code, told.count(f": {state},")) == (0, active), told
    code, _, told = here("dlq", "resume", GROUP, redrive_id, *names)
    assert (code, "already" in told) == (2, True)


def test_replay_needs_no_spark_for_dead_letters(
    cluster: Cluster, here: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    names = ("--namesrv", cluster.namesrv)
    source = f"%DLQ%{GROUP}"
    code, _, told = here("replay", source, "--where", "keys = 'o1'", *names)
    assert (code, "pocketmq dlq redrive billing selects and edits" in told) == (2, True)
    code, _, told = here("replay", source, *names)
    assert code == 0, told
    assert "all groups that consume" in told
    assert len(cluster.published("Orders", 2 * len(BODIES))) == 2 * len(BODIES)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("redrive", "nobody"), 1, "%DLQ%nobody"),
        (("redrive", GROUP, "--to", "Missing"), 1, "there is no topic Missing"),
        (("redrive", GROUP, "--patch", "{}", "--body", "x"), 2, "not both"),
        (("redrive", GROUP, "--body", "@missing"), 2, "--body @missing"),
        (("redrive", GROUP, "--state", "lost"), 2, "'lost' is none of"),
        (("redrive", GROUP, "--since", "yesterday"), 2, "is no time"),
        (("redrive", GROUP, "--where", "a ="), 1, "the filter expression is wrong"),
        (("results", GROUP, "unknown"), 2, "there is no redrive 'unknown'"),
        (("pause", GROUP, "unknown"), 2, "there is no redrive 'unknown'"),
    ],
)
def test_what_cannot_be_done_says_why(
    one_letter: Cluster, here: Command, words: tuple[str, ...], code: int, said: str
) -> None:
    found, _, told = here("dlq", *words, "--namesrv", one_letter.namesrv)
    assert (found, said in told) == (code, True), told


@pytest.fixture(scope="module")
def one_letter() -> Iterator[Cluster]:
    with LocalCluster(topics={"Orders": 1}, groups=[GROUP]) as cluster:
        with blocking.Producer("p", cluster.namesrv) as producer:
            producer.send(Message("Orders", BODIES[0]))
        with _consumer(cluster, Billing(), max_reconsume_times=0):
            cluster.drain(GROUP)
        yield cluster


def test_a_body_is_read_from_a_file(one_letter: Cluster, here: Command, tmp_path: Path) -> None:
    file = tmp_path / "body.json"
    file.write_text('{"price": 1}')
    names = ("--namesrv", one_letter.namesrv)
    words = ("dlq", "redrive", GROUP, "--body", f"@{file}", "--set", "fixed=yes", "--unset", "KEYS")
    code, out, _ = here(*words, "--dry-run", "-o", "json", *names)
    (plan,) = json.loads(out)
    (sample,) = plan["samples"]
    assert (code, sample["after"], sample["propertiesAfter"]["fixed"]) == (
        0, '{"price": 1}', "yes",
    )  # fmt: skip
