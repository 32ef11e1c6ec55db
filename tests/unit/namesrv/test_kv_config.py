from __future__ import annotations

import json
from pathlib import Path

import pytest

from pocketmq.namesrv import kv_config
from pocketmq.namesrv.kv_config import KVConfig, KVConfigError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "namesrv" / "kvConfig.json"


def opened(path: Path) -> KVConfig:
    kv = KVConfig(path)
    kv.load()
    return kv


def test_what_was_put_is_there_after_a_restart(path: Path) -> None:
    kv = opened(path)
    kv.put("NS", "k1", "v1")
    kv.put("NS", "k2", "größer")
    kv.put("Other", "k", "v")
    kv.delete("NS", "k1")
    again = opened(path)
    assert again.namespace("NS") == {"k2": "größer"}
    assert again.get("Other", "k") == "v"
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_the_file_has_rocketmqs_form(path: Path) -> None:
    opened(path).put("ORDER_TOPIC_CONFIG", "T", "broker-a:4")
    assert json.loads(path.read_text()) == {
        "configTable": {"ORDER_TOPIC_CONFIG": {"T": "broker-a:4"}}
    }


def test_missing_keys_and_namespaces(path: Path) -> None:
    kv = opened(path)
    assert kv.get("NS", "k") is None
    assert kv.namespace("NS") is None
    kv.delete("NS", "k")
    assert not path.exists()
    kv.put("NS", "k", "v")
    kv.delete("NS", "k")
    assert kv.namespace("NS") == {}, "an emptied namespace is still known"


def test_every_change_is_seen_in_the_generation(path: Path) -> None:
    kv = opened(path)
    generations = [kv.generation]
    kv.put("NS", "k", "v")
    generations.append(kv.generation)
    kv.delete("NS", "k")
    generations.append(kv.generation)
    assert len(set(generations)) == 3
    kv.delete("NS", "k")
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


def test_a_change_that_cannot_be_written_is_not_made(path: Path) -> None:
    kv = opened(path)
    kv.put("NS", "k", "v")
    path.with_name(path.name + ".tmp").mkdir()
    with pytest.raises(KVConfigError, match="nothing was changed"):
        kv.put("NS", "k", "other")
    assert kv.get("NS", "k") == "v"
    assert opened(path).get("NS", "k") == "v"


def test_the_table_is_bounded(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kv_config, "ENTRIES_MAX", 1)
    kv = opened(path)
    kv.put("NS", "k", "v")
    kv.put("NS", "k", "w")
    with pytest.raises(KVConfigError, match="the limit"):
        kv.put("Other", "k", "v")
    with pytest.raises(KVConfigError, match="longer than"):
        kv.put("NS", "k", "x" * (kv_config.TEXT_SIZE_MAX + 1))


def test_without_a_file_it_is_kept_in_memory() -> None:
    kv = KVConfig()
    kv.load()
    kv.put("NS", "k", "v")
    assert kv.get("NS", "k") == "v"
