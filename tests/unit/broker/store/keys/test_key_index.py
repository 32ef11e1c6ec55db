from __future__ import annotations

import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from support.store.disks import FailingFiles, PowerCutFiles
from support.store.keyed import (
    Keyed,
    expected,
    found,
    indexed,
    indexed_to,
    put_keyed,
    query,
    random_keyed,
    random_query,
)
from support.store.stores import TOPIC, abandon, damage, open_store, queue_directory, segment_files

from pocketmq.broker.store.keys import key_index
from pocketmq.broker.store.retention import Retention
from pocketmq.broker.store.settings import StoreSettings
from pocketmq.broker.store.store import MessageStore
from pocketmq.runtime.live import Live
from pocketmq.testing.clock import START_MS, VirtualClock

SETTINGS = StoreSettings(segment_size=6000, disk_free_min=0)
QUEUES = 3


@pytest.fixture(autouse=True)
def small_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_index, "RUN_RECORDS", 5)
    monkeypatch.setattr(key_index, "RUN_SIZE", 1500)
    monkeypatch.setattr(key_index, "SLICE_RECORDS", 2)


@pytest_asyncio.fixture
async def store(data: Path, clock: VirtualClock) -> AsyncIterator[MessageStore]:
    store = open_store(data, clock, SETTINGS)
    yield store
    await store.close()


def put_many(store: MessageStore, count: int, body: bytes = bytes(200)) -> list[Keyed]:
    """Messages of about 350 bytes: some 17 to a segment."""
    return [put_keyed(store, f"U{n}", ("all", f"k{n % 7}"), "T", body=body) for n in range(count)]


def files_in(data: Path, suffix: str) -> list[Path]:
    return sorted(data.rglob(f"*.{suffix}"))


async def test_what_is_worth_a_run_is_indexed_and_finished_segments_whole(
    store: MessageStore,
) -> None:
    index, search = indexed(store)
    sent = put_many(store, 60)
    queue_log = store.queue_log(TOPIC, 0)
    await store.checkpoint()
    await index.run()
    ends = [segment.base_offset for segment in queue_log.segments[1:]]
    assert len(ends) == 3
    assert indexed_to(index, queue_log)[:-1] == ends
    assert [len(index.key_file(queue_log, s).runs) for s in queue_log.segments[:-1]] == [1] * 3
    last = queue_log.segments[-1]
    assert 0 < queue_log.end_offset - index.key_file(queue_log, last).end_offset < 5
    for wanted in (query("U0"), query("U59"), query("k3"), query("all")):
        assert await found(search, wanted) == expected(sent, wanted)


async def test_few_messages_are_found_without_a_key_file(store: MessageStore, data: Path) -> None:
    index, search = indexed(store)
    sent = [put_keyed(store, f"U{n}", ("k",)) for n in range(4)]
    await store.checkpoint()
    await index.run()
    assert segment_files(data, "keys") == []
    assert await found(search, query("k")) == expected(sent, query("k"))


async def test_an_index_is_read_again_after_a_restart(
    data: Path, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(data, clock, SETTINGS)
    index, _ = indexed(store)
    sent = put_many(store, 40)
    await store.checkpoint()
    await index.run()
    before = indexed_to(index, store.queue_log(TOPIC, 0))
    await store.close()
    store = open_store(data, clock, SETTINGS)
    index, search = indexed(store)
    queue_log = store.queue_log(TOPIC, 0)
    assert indexed_to(index, queue_log) == before
    assert await found(search, query("k3")) == expected(sent, query("k3"))
    await store.close()


async def test_logs_of_which_nothing_is_indexed_are_indexed_in_the_first_round(
    data: Path, clock: VirtualClock
) -> None:
    store = open_store(data, clock, SETTINGS)
    sent = put_many(store, 60)
    await store.close()
    store = open_store(data, clock, SETTINGS)
    index, search = indexed(store)
    assert await found(search, query("U1")) == [(0, 1)]
    await index.run()
    assert len(segment_files(data, "keys")) == 4
    assert await found(search, query("U1")) == expected(sent, query("U1"))
    await store.close()


async def test_a_log_that_lost_its_end_is_indexed_anew(data: Path, clock: VirtualClock) -> None:
    files = PowerCutFiles()
    store = open_store(data, clock, SETTINGS, files)
    index, _ = indexed(store)
    kept = put_many(store, 8)
    await store.checkpoint()
    put_many(store, 30)
    index.want(store.queue_log(TOPIC, 0))
    await index.run()
    after = data.parent / "after"
    files.left_after_power_cut(data, after)
    for path in segment_files(data, "keys"):  # the disk happens to have them
        (queue_directory(after) / path.name).write_bytes(path.read_bytes())
    await store.close()

    store = open_store(after, clock, SETTINGS)
    index, search = indexed(store)
    queue_log = store.queue_log(TOPIC, 0)
    assert queue_log.end_offset == 8
    again = [put_keyed(store, f"N{n}", ("new",), body=bytes(200)) for n in range(30)]
    assert await found(search, query("new")) == expected(again, query("new"))
    await store.checkpoint()
    await index.run()
    assert await found(search, query("new")) == expected(again, query("new"))
    assert await found(search, query("all")) == expected(kept, query("all"))
    await store.close()


async def test_damage_is_noticed_mended_and_costs_no_message(
    store: MessageStore, data: Path, chance: random.Random
) -> None:
    index, search = indexed(store)
    sent = put_many(store, 60)
    await store.checkpoint()
    await index.run()
    for _ in range(40):
        path = chance.choice(segment_files(data, "keys"))
        sound = path.read_bytes()
        damage(path, chance.randrange(len(sound)))
        if chance.random() < 0.5:
            index._key_files.clear()  # as after a restart
        for key in ("all", "U3", "U59", "k1"):
            assert await found(search, query(key)) == expected(sent, query(key))
        await index.run()
        index._key_files.clear()
        index._complete.clear()
        index.want(store.queue_log(TOPIC, 0))
        await index.run()
        assert path.read_bytes() == sound


async def test_a_disk_that_fails_is_tried_again(
    data: Path, clock: VirtualClock, chance: random.Random, caplog: pytest.LogCaptureFixture
) -> None:
    files = FailingFiles()
    store = open_store(data, clock, SETTINGS, files)
    index, search = indexed(store)
    sent = put_many(store, 60)
    await store.checkpoint()
    for writes in range(12):
        files.fail_after(writes, part=chance.random())
        index.want(store.queue_log(TOPIC, 0))
        await index.run()
        files.heal()
        assert await found(search, query("all")) == expected(sent, query("all"))
    assert "cannot be indexed now" in caplog.text
    await index.run()
    assert not files_in(data, "merge")
    assert await found(search, query("k2")) == expected(sent, query("k2"))
    await store.close()


async def test_key_files_go_with_their_segments_and_topics(
    store: MessageStore, data: Path, clock: VirtualClock
) -> None:
    index, search = indexed(store)
    put_many(store, 60)
    await store.checkpoint()
    await index.run()
    store.queue_log(TOPIC, 0).drop_oldest_segment()
    assert [p.stem for p in segment_files(data, "keys")] == [p.stem for p in segment_files(data)]
    assert await found(search, query("U1")) == []
    await store.delete_topic(TOPIC)
    await index.run()
    assert await found(search, query("U59")) == []
    assert not queue_directory(data).exists()


async def test_while_a_topic_is_deleted_its_index_is_given_up(
    store: MessageStore, data: Path, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, _ = indexed(store)
    pauses = 0

    async def pause(_: float) -> None:
        nonlocal pauses
        pauses += 1
        if pauses == delete_at:
            await store.delete_topic(TOPIC)

    monkeypatch.setattr(index, "_pause", pause)
    for delete_at in (1, 4, 11, 13, 20):
        pauses = 0
        put_many(store, 60)
        await store.checkpoint()
        await index.run()
        assert pauses == delete_at, "nothing was done for a topic that is gone"
        assert not queue_directory(data).exists()


@pytest.mark.parametrize("number", range(4))
async def test_whatever_happens_searches_find_what_is_there(
    data: Path, clock: VirtualClock, seed: int, number: int
) -> None:
    chance = random.Random(seed * 100 + number)
    store = open_store(data, clock, SETTINGS)
    index, search = indexed(store)
    sent: list[Keyed] = []
    for _ in range(40):
        action = chance.choice(("put",) * 6 + ("index",) * 3 + ("kill", "restart", "lose", "age"))
        if action == "put":
            for _ in range(chance.randrange(1, 25)):
                sent.append(random_keyed(store, chance, chance.randrange(QUEUES)))
                if chance.random() < 0.3:
                    await clock.advance(chance.randrange(3) / 1000)
        elif action == "index":
            await store.checkpoint()
            await index.run()
        elif action == "age":
            await Retention(store, Live(chance.randrange(20))).run()
            await store.checkpoint()
        elif action == "lose":
            keys = files_in(data, "keys")
            for path in chance.sample(keys, min(2, len(keys))):
                store.files.delete(path)
            index._key_files.clear()
        else:
            if action == "kill":
                abandon(store)
            else:
                await store.close()
            store = open_store(data, clock, SETTINGS)
            index, search = indexed(store)
        sent = [m for m in sent if m.offset >= store.queue_log(TOPIC, m.queue_id).min_offset]
        for _ in range(4):
            wanted = random_query(chance, START_MS - 5, clock.now_ms() + 5)
            assert await found(search, wanted) == expected(sent, wanted), (action, wanted)
    await store.close()
