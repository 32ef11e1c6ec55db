# Invariant: whatever the key files hold, a search finds exactly the messages that are there, raises
# nothing, and a round of the index later the files are sound again.

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from support.store.keyed import expected, found, indexed, random_keyed, random_query
from support.store.stores import assert_sound, open_store

from pocketmq.broker.store.keys import key_index
from pocketmq.broker.store.settings import StoreSettings
from pocketmq.testing.clock import START_MS, VirtualClock

ROUNDS = 150
MESSAGES = 300
QUEUES = 2


def flip(data: bytearray, chance: random.Random) -> None:
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def cut(data: bytearray, chance: random.Random) -> None:
    del data[chance.randrange(len(data)) :]


def insert(data: bytearray, chance: random.Random) -> None:
    data[(at := chance.randrange(len(data))) : at] = chance.randbytes(chance.randrange(1, 40))


def overwrite(data: bytearray, chance: random.Random) -> None:
    at, size = chance.randrange(len(data)), chance.randrange(1, 200)
    data[at : at + size] = chance.choice([bytes(size), b"\xff" * size, chance.randbytes(size)])


def repeat(data: bytearray, chance: random.Random) -> None:
    data += data[chance.randrange(len(data)) :]


DAMAGES: list[Callable[[bytearray, random.Random], None]] = [flip, cut, insert, overwrite, repeat]


async def test_damaged_key_files(
    tmp_path: Path, clock: VirtualClock, chance: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_index, "RUN_RECORDS", 16)
    monkeypatch.setattr(key_index, "RUN_SIZE", 4000)
    settings = StoreSettings(segment_size=20_000, disk_free_min=0)
    store = open_store(tmp_path / "data", clock, settings)
    index, search = indexed(store)
    sent = [random_keyed(store, chance, chance.randrange(QUEUES)) for _ in range(MESSAGES)]
    await store.checkpoint()
    await index.run()
    files = key_files(tmp_path)
    for _ in range(ROUNDS):
        path = chance.choice(files)
        store.files._close(str(path))
        path.write_bytes(damaged(chance.choice(files).read_bytes(), chance))
        if chance.random() < 0.7:  # as after a restart
            index, search = indexed(store)
        for _ in range(3):
            wanted = random_query(chance, START_MS - 5, START_MS + 5)
            assert await found(search, wanted) == expected(sent, wanted)
        index, search = indexed(store)
        await index.run()
        assert key_files(tmp_path) == files
    for path in files:  # damage that nobody has met is still there
        store.files.delete(path)
    index, _ = indexed(store)
    await index.run()
    await store.close()
    assert_sound(tmp_path / "data")


def key_files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.keys"))


def damaged(sound: bytes, chance: random.Random) -> bytes:
    data = bytearray(sound)
    for _ in range(chance.randrange(1, 4)):
        if data:
            chance.choice(DAMAGES)(data, chance)
    return bytes(data)
