"""Data directories that releases have left are opened, whole, and go on (docs/upgrading.md).

`golden/record.py` made them, by the code of each release.
"""

from __future__ import annotations

import asyncio
import json
import tarfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest
from support.upgrades.fill import HOUR_MS, TOPICS, contents, offsets, read
from support.upgrades.releases import THIS, command
from support.upgrades.servers import broker, name_server

from pocketmq.broker.store.log.segment import HEADER_SIZE
from pocketmq.broker.store.mending.check import check_directory
from pocketmq.broker.store.metadata.features import BROKER_SET
from pocketmq.broker.store.metadata.metadata import Metadata
from pocketmq.client import (
    LocalTransactionState,
    Message,
    MessageQueue,
    ReceivedMessage,
    SimpleConsumer,
)
from pocketmq.runtime import VERSION
from pocketmq.testing import AsyncCluster, LocalCluster

GOLDEN = Path(__file__).parent / "golden"
ARCHIVES = sorted(path.name.removesuffix(".tar.xz") for path in GOLDEN.glob("*.tar.xz"))
CALLED_LATER = [f"timer {n}".encode() for n in range(3)]
DELAYED = [b"level %d" % n for n in range(3)]


class Commits:
    """Rolls back what is new, and commits whatever a broker asks about."""

    async def execute_local_transaction(self, message: Message, arg: Any) -> LocalTransactionState:
        """It only makes the producer known to the broker."""
        return LocalTransactionState.ROLLBACK

    async def check_local_transaction(self, message: ReceivedMessage) -> LocalTransactionState:
        """It was committed meanwhile."""
        return LocalTransactionState.COMMIT


def unpacked(archive: str, folder: Path) -> dict[str, Any]:
    """Unpacks what a release has left; returns what it should hold."""
    with tarfile.open(GOLDEN / f"{archive}.tar.xz") as tar:
        tar.extractall(folder, filter="data")
    return read(folder / "expected.json")


@asynccontextmanager
async def opened(folder: Path, start_ms: int) -> AsyncIterator[AsyncCluster]:
    """A cluster of this release on a directory, whose clock stands shortly behind the record's."""
    local = LocalCluster(data=str(folder), clock="virtual", start_ms=start_ms)
    async with local as cluster:
        yield cluster
    assert check_directory(folder / "broker-a").problems == []


def of_the_record(table: dict[str, Any]) -> dict[str, list[Any]]:
    """Offsets, bodies and the stored properties of messages, without where their queue ends."""
    return {
        queue: [
            [offset, body, {k: v for k, v in properties.items() if k[:4] not in ("MIN_", "MAX_")}]
            for offset, body, properties in messages
        ]
        for queue, messages in table.items()
    }


async def bodies(cluster: AsyncCluster, topic: str) -> list[bytes]:
    """The bodies of all messages that consumers of a topic get."""
    return [message.body for message in await cluster.published(topic, missing_ok=True)]


def test_each_release_has_its_directories() -> None:
    releases = {name.partition("-")[0] for name in ARCHIVES}
    assert releases == {"0.1.0", VERSION}, "record those of this release: golden/record.py this"
    assert {name for name in ARCHIVES if name.startswith("0.1.0")} == {
        f"0.1.0-{end}" for end in ("stopped", "killed", "torn")
    }


@pytest.mark.parametrize("archive", ARCHIVES)
async def test_every_message_and_offset_is_there_and_more_can_be_sent(
    archive: str, tmp_path: Path
) -> None:
    expected = unpacked(archive, tmp_path)
    async with opened(tmp_path, expected["recorded_ms"]) as cluster:
        found = of_the_record(await contents(cluster.namesrv))
        assert found == of_the_record(expected["contents"])
        assert await offsets(cluster.namesrv) == expected["offsets"]
        async with cluster.admin() as admin, cluster.producer() as producer:
            address = cluster.brokers["broker-a"]
            for topic, count in TOPICS.items():
                assert (await admin.topic_config(topic, address)).read_queue_nums == count
            assert (await admin.group_config("auditors", address)).retry_max_times == 3
            (message,) = await admin.query_messages("Orders", "key7")
            assert message.body == "order 7 · ".encode() * 8
            queue = MessageQueue("Orders", "broker-a", 0)
            sent = await producer.send(Message("Orders", b"after the upgrade"), queue=queue)
            assert sent.queue_offset == len(expected["contents"]["Orders 0"])
    async with opened(tmp_path, expected["recorded_ms"]) as cluster:
        now = await contents(cluster.namesrv)
        *before, (offset, body, _) = now["Orders 0"]
        assert [m[:2] for m in before] == [m[:2] for m in expected["contents"]["Orders 0"]]
        assert (offset, body) == (len(before), "after the upgrade")


@pytest.mark.parametrize("archive", ARCHIVES)
async def test_what_waited_comes_when_it_is_due_and_once(archive: str, tmp_path: Path) -> None:
    expected = unpacked(archive, tmp_path)
    billed: list[bytes] = []

    async def bill(messages: list[ReceivedMessage]) -> None:
        billed.extend(message.body for message in messages)

    async with opened(tmp_path, expected["recorded_ms"]) as cluster:
        assert await bodies(cluster, "Later") == []
        async with cluster.push_consumer("billing", listener=bill) as consumer:
            consumer.subscribe("Debts")
            await cluster.clock.advance(seconds=HOUR_MS / 1000)
            assert sorted(await bodies(cluster, "Later")) == CALLED_LATER, "without the recalled"
            assert billed == []
            await cluster.clock.advance(seconds=HOUR_MS / 1000)
            assert sorted(await bodies(cluster, "Later")) == [*DELAYED, *CALLED_LATER]
            assert billed == [b"in two hours"]
        letters = cluster.dead_letters("billing")
        assert [letter.body for letter in letters] == [b"dead"]


@pytest.mark.parametrize("archive", ARCHIVES)
async def test_an_open_transaction_is_asked_about_and_ends(archive: str, tmp_path: Path) -> None:
    expected = unpacked(archive, tmp_path)
    async with (
        opened(tmp_path, expected["recorded_ms"]) as cluster,
        cluster.transaction_producer("payers", listener=Commits()) as payers,
    ):
        await payers.send_in_transaction(Message("Placed", b"new"))
        await cluster.clock.advance(minutes=2)
        assert await bodies(cluster, "Placed") == [b"COMMIT", b"UNKNOWN"]


def is_in_step(namesrv: str) -> bool:
    """Whether both members of the broker set are in its in-sync set."""
    done = command(THIS, "cluster", "list", "-o", "json", "--namesrv", namesrv)
    assert done.returncode == 0, done.stderr
    return [row["inSync"] for row in json.loads(done.stdout)] == [True, True]


async def until_all_due_has_come(namesrv: str) -> None:
    """Servers have the clock of today: all that waited when the record was made is due at once."""
    waited = {body.decode() for body in (*DELAYED, *CALLED_LATER, b"in two hours")}
    found: set[str] = set()
    while not waited <= found:
        queues = await contents(namesrv, ["Later", "%RETRY%billing"])
        found = {body for messages in queues.values() for _, body, _ in messages}


def logs_of(directory: Path) -> dict[Path, bytes]:
    """The records of all queues, by file, without the headers, which say when a file was begun."""
    return {
        path.relative_to(directory): path.read_bytes()[HEADER_SIZE:]
        for path in directory.glob("queues/*/*/*.log")
    }


@pytest.mark.process
@pytest.mark.timeout(300)
async def test_a_directory_of_the_release_before_founds_a_broker_set(tmp_path: Path) -> None:
    expected = unpacked("0.1.0-killed", tmp_path)
    follower = tmp_path / "follower"
    follower.mkdir()
    settings: dict[str, Any] = {"enableControllerMode": True, "grpcServerPort": -1}
    with (
        name_server(THIS, tmp_path, arbiterPath=str(tmp_path / "arbiter.db")) as namesrv,
        broker(THIS, tmp_path / "broker-a", namesrv, brokerId=1, **settings),
        broker(THIS, follower / "broker-a", namesrv, brokerId=2, **settings),
    ):
        while not await asyncio.to_thread(is_in_step, namesrv):
            pass
        await until_all_due_has_come(namesrv)
        found = of_the_record(await contents(namesrv))
        late = found["%RETRY%billing 0"].pop()
        assert late[:2] == [1, "in two hours"]
        assert found == of_the_record(expected["contents"])
        assert await offsets(namesrv) == expected["offsets"]
    assert logs_of(follower / "broker-a") == logs_of(tmp_path / "broker-a")
    for directory in (tmp_path / "broker-a", follower / "broker-a"):
        assert check_directory(directory).problems == []
        with closing(Metadata(directory / "meta.db")) as metadata:
            assert BROKER_SET in metadata.features


@pytest.mark.parametrize("archive", [name for name in ARCHIVES if name.endswith("popped")])
async def test_what_was_in_flight_comes_again_when_its_time_is_over(
    archive: str, tmp_path: Path
) -> None:
    expected = unpacked(archive, tmp_path)
    async with opened(tmp_path, expected["recorded_ms"]) as cluster:
        await cluster.clock.advance(hours=2)
        consumer = SimpleConsumer("poppers", cluster.namesrv, await_ms=0)
        consumer.subscribe("Popped")
        async with consumer:
            received = await consumer.receive(32)
    assert [message.body for message in received] == [b"in flight"]
