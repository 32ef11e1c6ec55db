"""`pocketmq store backup`, `restore` and `backups` against a cluster of servers in processes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.commands.here import ok, pocketmq
from support.interop.clusters import Cluster, pocketmq_cluster
from support.store.stores import damage

from pocketmq.broker.store.mending.check import check_directory


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with pocketmq_cluster(tmp_path_factory.mktemp("cluster") / "data") as running:
        yield running


def loaded(*words: str) -> Any:
    return json.loads(ok(*words, "-o", "json"))


def test_a_backup_is_made_listed_checked_and_restored(cluster: Cluster, tmp_path: Path) -> None:
    names = ("--namesrv", cluster.namesrv)
    backups = str(tmp_path / "backups")
    ok("topic", "create", "Orders", "--queues", "1", *names)
    ok("produce", "Orders", *names, stdin="one\ntwo")
    done = pocketmq("store", "backup", backups, *names)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("backup 1 of broker-a: copied ")
    ok("produce", "Orders", *names, stdin="three")
    made = loaded("store", "backup", backups, "--rate", "100M", "--keep", "2", *names)
    assert (made["number"], made["removed"], made["notes"]) == (2, [], [])
    assert 0 < made["copied"] < made["size"]
    rows = loaded("store", "backups", backups)
    assert [row["number"] for row in rows] == [1, 2]
    assert "2 backups" in pocketmq("store", "check", backups).stderr
    assert loaded("store", "check", backups)["problems"] == []

    target = tmp_path / "restored"
    restored = loaded("store", "restore", backups, str(target))
    assert (restored["number"], restored["records"]) == (2, 3)
    assert check_directory(target).problems == []
    assert "three" in ok("store", "dump", str(target), "--topic", "Orders")
    older = pocketmq("store", "restore", backups, str(tmp_path / "older"), "--number", "1")
    assert "2 messages in" in older.stdout

    refused = pocketmq("store", "restore", backups, str(target))
    assert refused.returncode == 2
    assert "is there and not empty" in refused.stderr


def test_damage_is_named_with_its_remedy(cluster: Cluster, tmp_path: Path) -> None:
    backups = tmp_path / "backups"
    ok("topic", "create", "Precious", "--queues", "1", "--namesrv", cluster.namesrv)
    ok("produce", "Precious", "--namesrv", cluster.namesrv, stdin="gold")
    ok("store", "backup", str(backups), "--broker", cluster.brokers["broker-a"])
    damage(backups / "packs" / "00000001.pack", 200)
    for words in (("check", str(backups)), ("restore", str(backups), str(tmp_path / "new"))):
        done = pocketmq("store", *words)
        said = " ".join((done.stdout + done.stderr).split())
        assert done.returncode == 1
        assert "00000001.pack" in said
        assert "begin a new directory" in said
    assert not (tmp_path / "new").exists()


def test_what_cannot_be_done_is_said(cluster: Cluster, tmp_path: Path) -> None:
    names = ("--namesrv", cluster.namesrv)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("x")
    for words, code, text in (
        (("backup", str(tmp_path / "full"), *names), 2, "is not empty and no directory of backups"),
        (("backup", str(tmp_path / "b"), "--rate", "fast", *names), 2, "no number of bytes"),
        (("backup", str(tmp_path / "b"), "--broker", "nobody", *names), 2, "no broker nobody"),
        (("backup", str(tmp_path / "b"), "--broker", "127.0.0.1:1", *names), 1, "127.0.0.1:1"),
        (("restore", str(tmp_path), str(tmp_path / "new")), 2, "no directory of backups"),
        (("backups", str(tmp_path)), 2, "no directory of backups"),
    ):
        done = pocketmq("store", *words)
        assert done.returncode == code, done.stderr
        assert text in " ".join(done.stderr.replace("│", " ").split())
        assert "Traceback" not in done.stderr
