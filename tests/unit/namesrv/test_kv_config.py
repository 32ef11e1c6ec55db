from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from pocketmq.namesrv import kv_config
from pocketmq.namesrv.kv_config import KVConfig, KVConfigError
from pocketmq.protocol.bodies.topics import KVTable
from pocketmq.testing.clock import settle


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "namesrv" / "kvConfig.json"


def opened(path: Path) -> KVConfig:
    kv = KVConfig(path)
    kv.load()
    return kv


def content(path: Path) -> dict[str, dict[str, dict[str, str]]]:
    table: dict[str, dict[str, dict[str, str]]] = json.loads(path.read_text())
    return table


def write(path: Path, text: str) -> None:
    path.parent.mkdir()
    path.write_text(text)


def sizes(path: Path) -> tuple[int, ...]:
    """Of the file and of its log; 0 for what is not there."""
    log = path.with_name(path.name + ".log")
    return tuple(p.stat().st_size if p.exists() else 0 for p in (path, log))


async def test_what_was_put_is_there_after_a_restart(path: Path) -> None:
    kv = opened(path)
    await kv.put("NS", "k1", "v1")
    await kv.put("NS", "k2", "größer")
    await kv.put("Other", "k", "v")
    await kv.delete("NS", "k1")
    crashed = opened(path)
    assert crashed.namespace("NS") == {"k2": "größer"}
    await kv.close()
    again = opened(path)
    assert again.namespace("NS") == {"k2": "größer"}
    assert again.get("Other", "k") == "v"
    assert [file.name for file in path.parent.iterdir()] == [path.name]


async def test_the_file_has_rocketmqs_form(path: Path) -> None:
    kv = opened(path)
    await kv.put("ORDER_TOPIC_CONFIG", "T", "broker-a:4")
    await kv.close()
    assert content(path) == {"configTable": {"ORDER_TOPIC_CONFIG": {"T": "broker-a:4"}}}


async def test_missing_keys_and_namespaces(path: Path) -> None:
    kv = opened(path)
    assert kv.get("NS", "k") is None
    assert kv.namespace("NS") is None
    await kv.delete("NS", "k")
    assert sizes(path) == (0, 0)
    await kv.put("NS", "k", "v")
    await kv.delete("NS", "k")
    assert kv.namespace("NS") == {}, "an emptied namespace is still known"


async def test_every_change_is_seen_in_the_generation(path: Path) -> None:
    kv = opened(path)
    generations = [kv.generation]
    await kv.put("NS", "k", "v")
    generations.append(kv.generation)
    await kv.delete("NS", "k")
    generations.append(kv.generation)
    assert len(set(generations)) == 3
    await kv.delete("NS", "k")
    assert kv.generation == generations[-1]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"configTable":{"NS":1}}', b"\xff\xfe"])
def test_a_damaged_file_is_named(path: Path, content: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(KVConfigError, match="the file is damaged") as e:
        opened(path)
    assert str(path) in str(e.value)
    assert e.value.path == path


def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(KVConfigError, match="cannot be read"):
        opened(tmp_path)


async def test_a_change_that_cannot_be_written_is_not_made(path: Path) -> None:
    kv = opened(path)
    await kv.put("NS", "k", "v")
    await kv.close()
    path.with_name(path.name + ".log").mkdir()
    with pytest.raises(KVConfigError, match="nothing was changed"):
        await kv.put("NS", "k", "other")
    assert kv.get("NS", "k") == "v"
    path.with_name(path.name + ".log").rmdir()
    assert opened(path).get("NS", "k") == "v"
    await kv.put("NS", "k", "other")
    assert opened(path).get("NS", "k") == "other"


async def test_the_table_is_bounded(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kv_config, "ENTRIES_MAX", 1)
    kv = opened(path)
    await kv.put("NS", "k", "v")
    await kv.put("NS", "k", "w")
    with pytest.raises(KVConfigError, match="the limit"):
        await kv.put("Other", "k", "v")
    with pytest.raises(KVConfigError, match="longer than"):
        await kv.put("NS", "k", "x" * (kv_config.TEXT_SIZE_MAX + 1))


async def test_without_a_file_it_is_kept_in_memory() -> None:
    kv = KVConfig()
    kv.load()
    await kv.put("NS", "k", "v")
    assert kv.get("NS", "k") == "v"


async def test_the_loop_does_not_wait_for_the_disk(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []
    for name in ("fsync", "fdatasync"):
        original = getattr(os, name)

        def noted(fd: int, original: Callable[[int], None] = original) -> None:
            threads.append(threading.current_thread())
            original(fd)

        monkeypatch.setattr(os, name, noted)
    kv = opened(path)
    await kv.put("NS", "k", "v")
    await kv.close()
    assert len(threads) > 2
    assert threading.main_thread() not in threads


async def test_a_change_writes_itself_and_not_the_table(path: Path) -> None:
    kv = opened(path)
    for n in range(20):
        await kv.put("NS", f"k{n}", "v" * 1000)
    await kv.close()
    size, log_size = sizes(path)
    assert log_size == 0
    await kv.put("NS", "k", "v")
    assert sizes(path) == (size, len('["NS","k","v"]\n'))
    await kv.close()
    assert sizes(path)[1] == 0
    assert opened(path).get("NS", "k") == "v"


async def test_a_long_log_goes_into_the_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kv_config, "LOG_SIZE_MAX", 100)
    kv = opened(path)
    for n in range(19):
        await kv.put("NS", "k", f"{n}" * 10)
        assert sizes(path)[1] <= 100
    assert opened(path).get("NS", "k") == "18" * 10


@pytest.mark.parametrize("end", [b'["NS","k","w"', b'["NS","k","w"]', b"\0\0\0\n"])
async def test_a_change_that_was_being_written_at_a_crash_is_left_out(
    path: Path, end: bytes
) -> None:
    kv = opened(path)
    await kv.put("NS", "k", "v")
    with path.with_name(path.name + ".log").open("ab") as log:
        log.write(end)
    again = opened(path)
    assert again.get("NS", "k") == "v"
    await again.put("NS", "l", "v")
    assert opened(path).namespace("NS") == {"k": "v", "l": "v"}


async def test_a_damaged_log_is_named(path: Path) -> None:
    kv = opened(path)
    await kv.put("NS", "k", "v")
    log = path.with_name(path.name + ".log")
    log.write_bytes(b"[\n" + log.read_bytes())
    with pytest.raises(KVConfigError, match="line 1") as e:
        opened(path)
    assert e.value.path == log


async def test_changes_are_made_in_their_order_whoever_goes_away(path: Path) -> None:
    kv = opened(path)
    tasks = [asyncio.ensure_future(kv.put("NS", "k", f"{n}")) for n in range(5)]
    await settle(1)
    tasks[3].cancel()
    tasks[4].cancel()
    await kv.close()
    assert kv.get("NS", "k") == "4"
    assert opened(path).get("NS", "k") == "4"


async def test_the_table_fits_into_an_answer(path: Path) -> None:
    kv = opened(path)

    async def fill() -> None:
        for n in range(400):
            await kv.put("NS", f"k{n}", "\x00" * 65_000)

    with pytest.raises(KVConfigError, match=r"15728640 is the limit: delete some keys first"):
        await fill()
    body = kv.listing_now("NS")
    assert body is not None
    assert kv_config.SIZE_MAX - 7 * 65_000 < len(body) <= kv_config.SIZE_MAX
    await kv.delete("NS", "k0")
    await kv.put("NS", "again", "\x00" * 65_000)
    await kv.close()
    assert opened(path).namespace("NS") == kv.namespace("NS")


async def test_long_lists_are_encoded_by_a_thread_and_kept(path: Path) -> None:
    keys = {f"k{n}": "v" for n in range(kv_config.AT_ONCE_KEYS_MAX + 2)}
    write(path, json.dumps({"configTable": {"NS": keys}}))
    kv = opened(path)
    assert kv.listing_now("NS") is None
    assert await kv.listing("NS") == KVTable(table=keys).encode() == kv.listing_now("NS")
    await kv.delete("NS", "k1")
    assert kv.listing_now("NS") is None
    assert KVTable.decode(await kv.listing("NS")).table.get("k1") is None
    await kv.close()
    assert opened(path).namespace("NS") == kv.namespace("NS")
