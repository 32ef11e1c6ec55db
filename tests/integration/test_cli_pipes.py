"""`pocketmq produce` and `tail`, with each other and with other programs."""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.commands.here import Command, here
from support.commands.process import COMMAND, TIMEOUT_S, ok_process, pocketmq_process
from support.interop.clusters import Cluster
from support.protocol.strategies import INT32, PLAIN_TEXT
from unit.protocol.messages.test_message_json import OWN, SPECIAL

from pocketmq.cli.pipes.outflow import Destination, Outcome, Outflow
from pocketmq.client import Admin, Message, Producer, PullConsumer, blocking
from pocketmq.client.copying.start_point import BEGINNING
from pocketmq.client.copying.topic_feed import TopicFeed
from pocketmq.protocol.messages.message import ReceivedMessage
from pocketmq.protocol.messages.message_json import NOT_SENT_AGAIN, document_of_line, message_line
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.process import run

__all__ = ["here"]

TOPICS = itertools.count()
BODIES = st.binary(min_size=1, max_size=5000) | PLAIN_TEXT.map(str.encode)
MESSAGES = st.lists(st.tuples(BODIES, OWN, SPECIAL, INT32), min_size=1, max_size=40)


NAMES = ("P", "Q", "Lines", "Json", "Tail", "Ends", "Head", "Typed", "Bad", "Large")


@pytest.fixture(scope="module")
def cluster(one_broker: Cluster) -> Cluster:
    with blocking.Admin(one_broker.namesrv) as admin:
        for name in NAMES:
            admin.create_topic(f"Pipe{name}", 1 if name == "Typed" else 4)
    return one_broker


@pytest.fixture
def names(cluster: Cluster) -> tuple[str, str]:
    return ("--namesrv", cluster.namesrv)


async def stored(namesrv: str, topic: str, count: int) -> list[ReceivedMessage]:
    """All of a topic, once it shows so many: Apache's broker does some time after it took them."""
    found: list[ReceivedMessage] = []
    while len(found) < count:
        found = await shown(namesrv, topic)
    return found


async def shown(namesrv: str, topic: str) -> list[ReceivedMessage]:
    found = []
    async with (
        PullConsumer("readers", namesrv) as consumer,
        TopicFeed(consumer, SystemClock(), expression="*", commits=False) as feed,
    ):
        await feed.start(topic, BEGINNING, to_end=True)
        while (message := await feed.next()) is not None:
            found.append(message)
    return found


def essence(messages: list[ReceivedMessage]) -> Sequence[object]:
    """By queue and in its order, what a copy must have."""
    return sorted(
        (m.queue_id, m.queue_offset, m.body, m.flag,
         {k: v for k, v in m.properties.items() if k not in NOT_SENT_AGAIN})
        for m in messages
    )  # fmt: skip


# -- what goes through ----------------------------------------------------------------------------


@settings(max_examples=12)
@given(messages=MESSAGES)
def test_a_copy_keeps_queue_order_keys_tags_properties_and_bytes(
    cluster: Cluster, messages: list[tuple[bytes, dict[str, str], dict[str, str], int]]
) -> None:
    number = next(TOPICS)
    first, second = f"PipeA{number}", f"PipeB{number}"

    async def main() -> tuple[list[ReceivedMessage], list[ReceivedMessage], Outcome]:
        async with Admin(cluster.namesrv) as admin, Producer("pg", cluster.namesrv) as producer:
            for topic in (first, second):
                await admin.create_topic(topic, 4)
            for body, own, special, flag in messages:
                message = Message(first, body, properties=own | special, flag=flag)
                await producer.send(message)
        originals = await stored(cluster.namesrv, first, len(messages))
        outcome = Outcome("pipe", keep_going=False)
        destination = Destination(topic=second, namesrv=cluster.namesrv, keep_queue=True)
        async with Outflow(destination, outcome) as out:
            for line, original in enumerate(originals, 1):
                assert await out.put(line, document_of_line(message_line(original)))
        outcome.check()
        return originals, await stored(cluster.namesrv, second, len(messages)), outcome

    originals, copies, outcome = run(main())
    assert len(originals) == len(messages)
    assert essence(copies) == essence(originals)
    assert not {m.msg_id for m in copies} & {m.msg_id for m in originals}
    assert (outcome.sent, outcome.failed, outcome.next_number) == (len(messages), 0,
                                                                   len(messages) + 1)  # fmt: skip


@pytest.mark.process
def test_the_same_by_two_processes_and_a_pipe(cluster: Cluster, names: tuple[str, str]) -> None:
    bodies = [bytes(range(256)), b"\n", "ü\u2028🦜".encode(), b'{"a": "\\n"}', b" "]
    with blocking.Producer("pg", cluster.namesrv) as producer:
        for body in bodies:
            producer.send(
                Message("PipeP", body, keys=["k", "ü"], tags="a b", properties={"=": ","})
            )
    run(stored(cluster.namesrv, "PipeP", len(bodies)))
    text = ok_process("tail", "PipeP", "-O", "beginning", "-e", "-f", "json", *names)
    done = pocketmq_process("produce", "PipeQ", "-f", "json", "--keep-ids", *names, stdin=text)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "5 messages sent to PipeQ\n"
    copies = run(stored(cluster.namesrv, "PipeQ", len(bodies)))
    assert sorted(m.body for m in copies) == sorted(bodies)
    assert {(m.keys, m.tags, m.properties["="]) for m in copies} == {(("k", "ü"), "a b", ",")}
    ids = {json.loads(line)["msgId"] for line in text.splitlines()}
    assert {m.msg_id for m in copies} == ids


def test_lines_have_keys_delimiters_and_what_all_share(
    here: Command, names: tuple[str, str]
) -> None:
    text = "k1:one\0\0two:2:3\0:x\ny\0four"
    options = ("-K", ":", "-D", "\\0", "-t", "new", "-p", "a=b", "-q", "0")
    here("produce", "PipeLines", *options, *names, stdin=text)
    _, shown, _ = here(
        "tail", "PipeLines", "-O", "beginning", "-e", "-f", "%o [%k|%g|%s|%S]\\n", *names
    )
    assert shown == "0 [k1|new|one|3]\n1 [two|new|2:3|3]\n2 [|new|x\ny|3]\n3 [|new|four|4]\n"
    lines = json.dumps({"body": "own", "keys": ["mine"]}) + '\n\n{"body": "x", "tags": "t"}'
    here("produce", "PipeJson", "-f", "json", "-k", "k", "-t", "new", "-p", "a=b", "-q",
       "broker-a:1", "-c", "2", *names, stdin=lines + '\n{"body": "third"}')  # fmt: skip
    _, shown, _ = here(
        "tail", "PipeJson", "-O", "beginning", "-e", "-q", "1", "-f", "%k %g %s,", *names
    )
    assert shown == "mine new own,k t x,"


def test_a_tail_begins_filters_and_counts(
    here: Command, cluster: Cluster, names: tuple[str, str]
) -> None:
    with blocking.Producer("pg", cluster.namesrv) as producer:
        queue = producer.queues("PipeTail")[0]
        for number in range(10):
            tag = "even" if number % 2 == 0 else "odd"
            message = Message("PipeTail", b"%d" % number, tags=tag, properties={"n": str(number)})
            producer.send(message, queue=queue)
    run(stored(cluster.namesrv, "PipeTail", 10))

    def tail(*words: str) -> str:
        return "".join(here("tail", "PipeTail", "-e", *words, *names)[1].split())

    assert tail("-O", "beginning") == "0123456789"
    assert tail("-O", "7") == "789"
    assert tail("-O", "-3") == "789"
    assert tail("-O", "-8", "-c", "2") == "23"
    assert tail("-O", "2020-01-01T00:00:00Z", "--tag", "odd") == "13579"
    assert tail("-O", "beginning", "--sql", "n > 6") == "789"
    assert tail() == ""


# -- how it ends ----------------------------------------------------------------------------------


@pytest.mark.process
def test_a_tail_ends_cleanly_when_it_is_told_to(names: tuple[str, str]) -> None:
    ok_process("produce", "PipeEnds", *names, stdin="one")
    process = subprocess.Popen(
        (*COMMAND, "tail", "PipeEnds", "-O", "beginning", *names),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == b"one\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, errors) == (130, b"")


@pytest.mark.process
def test_a_tail_ends_when_nobody_reads_it(names: tuple[str, str]) -> None:
    ok_process("produce", "PipeHead", *names, stdin="one")
    process = subprocess.Popen(
        (*COMMAND, "tail", "PipeHead", "-O", "beginning", *names),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == b"one\n"
    process.stdout.close()  # nothing more comes: the end is noticed without a write
    assert process.wait(TIMEOUT_S) == 141
    assert process.stderr.read() == b""
    process.stderr.close()


@pytest.mark.process
def test_lines_are_sent_as_they_come_and_a_signal_ends_it(names: tuple[str, str]) -> None:
    tail = subprocess.Popen(
        (*COMMAND, "tail", "PipeTyped", "-O", "beginning", *names), stdout=subprocess.PIPE
    )
    typed = subprocess.Popen(
        (*COMMAND, "produce", "PipeTyped", *names), stdin=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert tail.stdout is not None
    assert typed.stdin is not None
    for line in (b"first\n", b"second\n"):
        typed.stdin.write(line)
        typed.stdin.flush()
        assert tail.stdout.readline() == line  # while the input goes on
    typed.send_signal(signal.SIGINT)
    _, errors = typed.communicate(timeout=TIMEOUT_S)
    assert (typed.returncode, errors) == (130, b"2 messages sent to PipeTyped, then interrupted\n")
    tail.send_signal(signal.SIGINT)
    tail.communicate(timeout=TIMEOUT_S)
    assert tail.returncode == 130


# -- what is wrong --------------------------------------------------------------------------------

GOOD = '{"body": "x"}\n'


@pytest.mark.parametrize(
    ("words", "stdin", "code", "told"),
    [
        (["-f", "json"], GOOD * 3 + '{"bdy": 1}\n' + GOOD, 2,
         "standard input:4: unknown field 'bdy'; did you mean 'body'? (3 messages were sent)"),
        (["-f", "json"], GOOD + "{", 2, "standard input:2: this is no JSON"),
        (["-f", "json"], '{"body": ""}', 2, "standard input:1: the body is empty"),
        (["-f", "json", "--keep-queue"], '{"body": "x", "broker": "b", "queue": 3}', 2,
         "has no queue b:3 that can be written to"),
        (["-f", "json", "--keep-going"], GOOD + "{\n" + GOOD, 1,
         "1 messages were not sent, 2 were"),
        (["-p", "a\x01=b"], "x\n", 2, "standard input:1: property 'a\\x01' holds"),
        (["-K", ":"], "x\na b:c", 2, "standard input:2: a key is empty or holds a space"),
        (["-q", "9"], "x", 2, "broker-a:9 is no queue that can be written to"),
        (["-q", "other:0"], "x", 2, "BROKER:ID with one of the brokers broker-a"),
        (["-D", ""], "x", 2, "a delimiter is empty"),
        (["-D", "\\q"], "x", 2, "\\q in '\\\\q' is unknown"),
        (["-f", "xml"], "x", 2, "'xml' is not one of"),
        (["-p", "a"], "x", 2, "not of the form name=value"),
    ],
)  # fmt: skip
def test_bad_input_is_named(
    here: Command, names: tuple[str, str], words: list[str], stdin: str, code: int, told: str
) -> None:
    ended, out, errors = here("produce", "PipeBad", *words, *names, stdin=stdin)
    assert (ended, out) == (code, ""), errors
    assert told in errors


def test_a_message_that_is_too_large_is_named(cluster: Cluster) -> None:
    async def main() -> Outcome:
        outcome = Outcome("pipe", keep_going=True)
        destination = Destination(topic="PipeLarge", namesrv=cluster.namesrv, queue="0")
        async with Outflow(destination, outcome) as out:
            for number, size in enumerate((10, 5 * 1024 * 1024, 10), 1):
                line = json.dumps({"body": "x" * size}).encode()
                await out.put(number, document_of_line(line))
        return outcome

    outcome = run(main())
    assert (outcome.sent, outcome.failed) == (2, 1)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["-f", "jsn"], "shows nothing of a message"),
        (["-f", "%z"], "%z in --format '%z' is unknown: there are %t topic"),
        (["-f", "%s\\q"], "is unknown"),
        (["-f", "%s%"], "is unknown"),
        (["-O", "noon"], "--offset is 'noon': it must be beginning, end, an offset, -5"),
        (["-q", "0:0"], "--queue is '0:0'"),
        (["-q", "77"], "is no queue that can be read"),
        (["--sql", "a >"], "--sql"),
        (["--sql", "a > 1", "--tag", "x"], "not both"),
    ],
)
def test_a_tail_that_makes_no_sense_is_refused(
    here: Command, names: tuple[str, str], words: list[str], told: str
) -> None:
    code, out, errors = here("tail", "PipeBad", "-e", *words, *names)
    assert (code, out) == (2, "")
    assert told in errors


def test_a_topic_that_does_not_exist_is_named(here: Command, names: tuple[str, str]) -> None:
    code, out, errors = here("tail", "Nowhere", "-e", *names)
    assert (code, out) == (1, "")
    assert "topic Nowhere does not exist" in errors
