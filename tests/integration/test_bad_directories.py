"""Data directories that are not as a broker left them: what it says, and what it serves."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from support.brokers.broker_parts import TOPIC, Client, Stage, send_request
from support.commands.here import pocketmq
from support.commands.process import pocketmq_process
from support.store.disks import FailingFiles
from support.store.repairs import contents
from support.store.stores import cut_file, damage

from pocketmq.broker.store.disk.errors import (
    DirectoryError,
    DirectoryInUseError,
    FormatError,
    OwnerError,
    StoreError,
    VersionError,
)
from pocketmq.broker.store.log.segment import HEADER_SIZE
from pocketmq.broker.store.mending.check import check_directory
from pocketmq.broker.store.metadata.metadata import BOOT_STATE
from pocketmq.protocol.bodies.topics import KVTable
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.messages.ids import parse_offset_msg_id
from pocketmq.protocol.requests.offsets import ViewMessageRequest
from pocketmq.protocol.requests.queries import QueryMessageRequest
from pocketmq.protocol.requests.topics import (
    DeleteTopicRequest,
    RuntimeInfoRequest,
    TopicStatsRequest,
)

POWERLESS = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")
"""Runs a command of root's as if it were anybody's: permissions hold for it."""

BODIES = [bytes((65 + index,)) * 30_000 for index in range(5)]
"""Two of them fit into a segment of the tests: there are three."""


@pytest_asyncio.fixture
async def directory(stage: Stage) -> Path:
    """A directory of a broker with two queues that hold messages, stopped cleanly."""
    client = await stage.started_with_topic(segment_size=64 * 1024)
    for body in BODIES:
        await client.send(body)
    await client.send(b"sound", queue_id=1)
    await client.broker.close()
    return stage.directory / "store"


def start_of(directory: Path, prefix: tuple[str, ...] = (), **settings: Any) -> str:
    """What a broker says that does not start on a directory; exit code 1."""
    given = {"storePathRootDir": str(directory), "listenPort": 0, "bindAddress": "127.0.0.1"}
    done = pocketmq_process("broker", "--settings", json.dumps(given | settings), prefix=prefix)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[-1].startswith("pocketmq: ")
    assert "Traceback" not in done.stderr
    return done.stderr


def logs(directory: Path, queue_id: int = 0) -> list[Path]:
    return sorted((directory / "queues" / TOPIC / str(queue_id)).glob("*.log"))


def say_unclean(directory: Path) -> None:
    with closing(sqlite3.connect(directory / "meta.db")) as database:
        database.execute("UPDATE state SET value = 'no' WHERE key = 'clean_stop'")
        database.commit()


def say_power_was_lost(directory: Path) -> None:
    say_unclean(directory)
    with closing(sqlite3.connect(directory / "meta.db")) as database:
        database.execute("UPDATE state SET value = '\"another\"' WHERE key = ?", (BOOT_STATE,))
        database.commit()


async def figures(client: Client) -> dict[str, str]:
    return KVTable.decode((await client.ask(RuntimeInfoRequest())).body).table


# -- one queue is damaged -----------------------------------------------------------------------


def middle_is_missing(directory: Path) -> None:
    logs(directory)[1].unlink()


def all_is_missing(directory: Path) -> None:
    shutil.rmtree(logs(directory)[0].parent)


def end_is_missing(directory: Path) -> None:
    cut_file(logs(directory)[2], HEADER_SIZE + 100)


def header_is_damaged(directory: Path) -> None:
    damage(logs(directory)[1], 30)


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize(
    "harm", [middle_is_missing, all_is_missing, end_is_missing, header_is_damaged]
)
async def test_a_damaged_queue_is_refused_with_the_remedy_and_the_others_are_served(
    stage: Stage, directory: Path, harm: Callable[[Path], None], is_clean: bool
) -> None:
    harm(directory)
    if not is_clean:
        say_unclean(directory)
    before = contents(directory / "queues")
    client = await stage.start()
    remedy = f"stop the broker and run `pocketmq store repair {directory}`"
    pull = await client.pull()
    assert pull.code == ResponseCode.SYSTEM_ERROR
    assert str(pull.status).startswith(f"queue 0 of {TOPIC} is not served: ")
    assert str(pull.status).endswith(remedy)
    with pytest.raises(StoreError) as caught:
        client.broker.store.find_log(TOPIC, 0)
    assert remedy in str(caught.value)
    table = await figures(client)
    assert table["damagedQueues"] == "1"
    assert remedy in table[f"damagedQueue_{TOPIC}_0"]
    answer = await client.ask(TopicStatsRequest(topic=TOPIC))
    assert remedy in str(answer.remark)
    assert (await client.stats())[1].max_offset == 1
    assert [m.body for m in await client.everything(queue_id=1)] == [b"sound"]
    assert (await client.send(queue_id=1)).queue_offset == 1
    await client.broker.close()
    after = contents(directory / "queues")
    assert all(after.get(path) == data for path, data in before.items() if path.match("0/*.log"))

    done = pocketmq("store", "repair", str(directory))
    assert done.returncode == 0, done.stderr
    assert "all sound" in done.stderr
    client = await stage.start()
    assert (await figures(client))["damagedQueues"] == "0"
    low = (await client.stats())[0].min_offset
    found = [m.body for m in await client.everything()] if low == 0 else []
    assert found in ([], BODIES[:4], BODIES)
    await client.send(b"goes on")
    await client.broker.close()


async def test_a_send_to_a_damaged_queue_is_refused_as_one_to_try_elsewhere(
    stage: Stage, directory: Path
) -> None:
    middle_is_missing(directory)
    client = await stage.start()
    refusal = await client.refusal(send_request(), b"x")
    assert refusal.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert "pocketmq store repair" in refusal.remark
    await client.ask(DeleteTopicRequest(topic=TOPIC))
    assert (await figures(client))["damagedQueues"] == "0"
    await client.broker.close()


async def test_a_damaged_record_is_never_served(stage: Stage, directory: Path) -> None:
    damage(logs(directory)[1], HEADER_SIZE + 200)
    client = await stage.start()
    assert [m.body for m in (await client.pull(0)).messages] == BODIES[:2]
    pull = await client.pull(2)
    assert (pull.code, pull.messages) == (ResponseCode.SYSTEM_ERROR, [])
    assert "the record at offset 2 or right behind it is damaged, and is not served" in str(
        pull.status
    )
    assert [m.body for m in (await client.pull(3)).messages] == [BODIES[3]]
    assert (await figures(client))["damagedQueues"] == "1"
    await client.broker.close()


@pytest.mark.parametrize("is_damaged", [True, False])
async def test_nor_is_it_found_by_key_or_id(stage: Stage, is_damaged: bool) -> None:
    client = await stage.started_with_topic()
    sent = await client.send(b"wanted", properties="KEYS\x01needle\x02")
    await client.broker.close()
    if is_damaged:
        damage(logs(stage.directory / "store")[0], HEADER_SIZE + 90)
    client = await stage.start()
    by_key = QueryMessageRequest(
        topic=TOPIC, key="needle", max_num=8, begin_timestamp=0, end_timestamp=1 << 62
    )
    by_id = ViewMessageRequest(offset=parse_offset_msg_id(sent.msg_id)[1])
    codes = [(await client.call(request)).code for request in (by_key, by_id)]
    assert codes == ([ResponseCode.QUERY_NOT_FOUND, ResponseCode.SYSTEM_ERROR] if is_damaged
                     else [0, 0])  # fmt: skip
    await client.broker.close()


async def test_an_index_longer_than_its_log_is_made_again(stage: Stage, directory: Path) -> None:
    for path in logs(directory):
        with path.with_suffix(".idx").open("ab") as file:
            file.write(b"\x7f" * 60)
    client = await stage.start()
    assert [m.body for m in await client.everything()] == BODIES
    assert (await client.send()).queue_offset == 5
    assert len(await client.everything()) == 6
    await client.broker.close()


@pytest.mark.process
async def test_without_the_log_of_half_messages_no_broker_starts(stage: Stage) -> None:
    client = await stage.started_with_topic()
    for _ in range(2):
        await client.send(b"half", properties="TRAN_MSG\x01true\x02PGROUP\x01p\x02")
    await client.broker.close()
    directory = stage.directory / "store"
    (path,) = (directory / "queues" / "RMQ_SYS_TRANS_HALF_TOPIC").rglob("*.log")
    cut_file(path, HEADER_SIZE + 10)
    assert "queue 0 of RMQ_SYS_TRANS_HALF_TOPIC is not served" in start_of(directory)
    assert f"pocketmq store repair {directory}" in start_of(directory)
    assert pocketmq("store", "repair", str(directory)).returncode == 0
    await (await stage.start()).broker.close()


# -- the whole directory ------------------------------------------------------------------------


@pytest.mark.process
async def test_a_newer_format_is_refused_with_the_version(stage: Stage, directory: Path) -> None:
    damage(logs(directory)[0], 9)
    client = await stage.start()
    assert str((await client.pull()).status).endswith("run the version of PocketMQ that wrote it")
    await client.broker.close()
    done = pocketmq("store", "check", str(directory))
    assert done.returncode == 1
    assert "run the version of PocketMQ that wrote it" in done.stdout
    damage(logs(directory)[0], 9)
    with closing(sqlite3.connect(directory / "meta.db")) as database:
        database.execute("PRAGMA user_version=99")
    with pytest.raises(VersionError, match="run the version of PocketMQ that wrote it"):
        await stage.broker()
    assert "run the version of PocketMQ that wrote it" in start_of(directory)


@pytest.mark.process
async def test_another_brokers_directory_is_refused(stage: Stage, directory: Path) -> None:
    others: list[dict[str, Any]] = [
        {"broker_name": "broker-z"},
        {"broker_cluster_name": "Other"},
    ]
    for other in others:
        with pytest.raises(OwnerError, match="set this broker's own storePathRootDir"):
            await stage.broker(**other)
    assert f"run `pocketmq store release {directory}` once" in start_of(
        directory, brokerName="broker-z"
    )
    assert pocketmq("store", "release", str(directory)).returncode == 0
    client = await stage.start(broker_name="broker-z")
    assert [m.body for m in await client.everything()] == BODIES
    await client.broker.close()
    with pytest.raises(OwnerError):
        await stage.broker()


@pytest.mark.process
@pytest.mark.parametrize("content", [b"", b"no database" * 1000, None])
async def test_a_corrupt_meta_db_is_refused_and_repaired(
    stage: Stage, directory: Path, content: bytes | None
) -> None:
    path = directory / "meta.db"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2] if content is None else content)
    with pytest.raises(FormatError, match="pocketmq store repair"):
        await stage.broker()
    assert f"pocketmq store repair {directory}" in start_of(directory)
    tried = pocketmq("store", "repair", "--dry-run", str(directory))
    assert tried.returncode == 1
    assert "nothing was changed" in tried.stderr
    assert pocketmq("store", "repair", str(directory)).returncode == 0
    client = await stage.start()
    assert [m.body for m in await client.everything()] == BODIES
    await client.broker.close()


async def test_values_of_meta_db_that_are_no_text_are_refused(
    stage: Stage, directory: Path
) -> None:
    with closing(sqlite3.connect(directory / "meta.db")) as database:
        database.execute("UPDATE topics SET config = 'x'")
        database.commit()
    with pytest.raises(FormatError, match=r"a value in it cannot be read .* store repair"):
        await stage.broker()
    assert pocketmq("store", "repair", str(directory)).returncode == 0
    await (await stage.start()).broker.close()


async def test_a_locked_meta_db_is_refused_with_the_reason(stage: Stage, directory: Path) -> None:
    with closing(sqlite3.connect(directory / "meta.db", isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode=EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(DirectoryError) as caught:
            await stage.broker()
    assert "database is locked" in str(caught.value)
    assert "end the program that has it open" in str(caught.value)
    await (await stage.start()).broker.close()


@pytest.mark.process
async def test_a_directory_in_use_is_named_and_left_alone(stage: Stage, directory: Path) -> None:
    client = await stage.start()
    with pytest.raises(DirectoryInUseError, match=f"in use by process {os.getpid()}"):
        await stage.broker()
    for words in (("check",), ("repair",), ("repair", "--dry-run"), ("release",)):
        done = pocketmq("store", words[0], str(directory), *words[1:])
        assert done.returncode == 1
        assert f"in use by process {os.getpid()}" in done.stderr
    assert "in use by process" in start_of(directory)
    dumped = pocketmq("store", "dump", str(directory), "--topic", TOPIC, "-o", "json")
    assert dumped.returncode == 0, dumped.stderr
    assert len(dumped.stdout.splitlines()) == 6
    await client.broker.close()


# -- permissions and room ------------------------------------------------------------------------


@pytest.mark.process
async def test_a_directory_that_cannot_be_written_is_refused(stage: Stage, directory: Path) -> None:
    prefix = () if os.geteuid() else POWERLESS
    if prefix and shutil.which(prefix[0]) is None:
        pytest.skip("root may write everywhere")
    paths = (directory, directory / "lock", directory / "meta.db")
    try:
        for path in paths:
            path.chmod(0o500 if path.is_dir() else 0o400)
        text = start_of(directory, prefix)
        assert "Permission denied; make it readable and writable for this user" in text
        # What may only be read can be checked and dumped all the same.
        checked = pocketmq_process("store", "check", str(directory), prefix=prefix)
        assert checked.returncode == 0, checked.stderr
        assert "all sound" in checked.stderr
        dumped = pocketmq_process("store", "dump", str(directory), "--limit", "1", prefix=prefix)
        assert dumped.returncode == 0, dumped.stderr
        repair = pocketmq_process("store", "repair", str(directory), prefix=prefix)
        assert repair.returncode == 1
        assert "Permission denied" in repair.stderr
    finally:
        for path in paths:
            path.chmod(0o700)


class OwnedFiles(FailingFiles):
    """A disk on which one queue's files are another user's."""

    def read(self, path: Path | str, position: int, size: int) -> bytes:
        path = Path(path)
        if path.parent.name == "0" and TOPIC in path.parts:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return super().read(path, position, size)


async def test_files_of_another_user_cost_their_queue_only(stage: Stage, directory: Path) -> None:
    say_unclean(directory)
    client = await stage.start(files=OwnedFiles())
    pull = await client.pull()
    assert pull.code == ResponseCode.SYSTEM_ERROR
    assert "Permission denied; make the files readable and writable" in str(pull.status)
    assert [m.body for m in await client.everything(queue_id=1)] == [b"sound"]
    await client.broker.close()
    client = await stage.start()
    assert [m.body for m in await client.everything()] == BODIES
    await client.broker.close()


async def test_a_full_disk_at_the_start_is_named(stage: Stage, directory: Path) -> None:
    logs(directory)[2].with_suffix(".idx").unlink()
    say_power_was_lost(directory)
    files = FailingFiles()
    files.fail_after(0, errno.ENOSPC, failures=None)
    with pytest.raises(
        DirectoryError, match="No space left on device; free some space on its disk"
    ):
        await stage.broker(files=files)
    assert check_directory(directory).findings
    client = await stage.start()
    assert [m.body for m in await client.everything()] == BODIES
    await client.broker.close()


async def test_a_full_disk_after_a_kill_holds_up_one_queue_until_there_is_room(
    stage: Stage, directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    logs(directory)[2].with_suffix(".idx").unlink()
    say_unclean(directory)
    files = FailingFiles()
    files.fail_after(0, errno.ENOSPC, failures=None)
    client = stage.client(await stage.broker(files=files))
    refused = await client.pull()
    assert refused.code == ResponseCode.SYSTEM_ERROR
    assert "No space left on device" in caplog.text
    assert [m.body for m in await client.everything(queue_id=1)] == [b"sound"]
    files.heal()
    assert [m.body for m in await client.everything()] == BODIES
    await client.broker.close()
    assert check_directory(directory).problems == []
