"""The documentation: what it is made of is fresh, the site builds, and what it says can be done."""

from __future__ import annotations

import importlib.util
import os
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.python_blocks import python_of

from pocketmq.cli.main import command
from pocketmq.cli.profiles.target import NAMESRV_VARIABLE, PROFILE_VARIABLE
from pocketmq.client import Message
from pocketmq.testing import LocalCluster
from pocketmq.testing.cluster import Cluster

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
TIMEOUT_S = 100.0

SERVERS = ("up", "namesrv", "broker -c", "store")
"""Of these only the words are looked at, or they run once the cluster has stopped."""

EXAMPLE_ADDRESSES = re.compile(r"10\.0\.0\.1:9876|a\.example:9876;b\.example:9876")


def run_python(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        (sys.executable, *words),
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def test_the_reference_says_what_the_sources_say(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(DOCS / "scripts")
    main = runpy.run_path(str(DOCS / "scripts" / "reference.py"))["main"]
    assert main("--check") == 0, capsys.readouterr().err


def test_the_pictures_show_what_their_sources_say(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(DOCS / "scripts")
    main = runpy.run_path(str(DOCS / "scripts" / "pictures.py"))["main"]
    assert main("--check") == 0, capsys.readouterr().err


@pytest.mark.process
@pytest.mark.skipif(importlib.util.find_spec("mkdocs") is None, reason="needs mkdocs-material")
def test_the_site_builds_without_warnings(tmp_path: Path) -> None:
    done = run_python("-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site"))
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    for page in ("index", "quickstart/index", "client/index", "architecture/index"):
        assert (tmp_path / "site" / f"{page}.html").exists()
    assert (
        "Sends three messages in three ways."
        in (tmp_path / "site" / "client" / "index.html").read_text()
    )


def commands_of(page: str) -> list[str]:
    """What follows ``pocketmq`` in the indented lines of a page."""
    text = (DOCS / page).read_text("utf-8")
    return re.findall(r"^    pocketmq (.*?)(?: +#.*)?$", text, re.M)


def run_command(text: str) -> int:
    """Runs a command in this process; its exit code."""
    return command()(shlex.split(text), prog_name="pocketmq", standalone_mode=False) or 0


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv(PROFILE_VARIABLE, raising=False)
    settings = {"auto_create_topic_enable": True}
    with LocalCluster(data="pocketmq-data", broker_settings=settings) as running:
        monkeypatch.setenv(NAMESRV_VARIABLE, running.namesrv)
        yield running


def test_the_commands_of_the_first_five_minutes(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [text for text in commands_of("quickstart.md") if not text.startswith(SERVERS)]
    assert len(words) == 6
    assert [run_command(text) for text in words] == [0] * 6
    printed = capsys.readouterr().out
    assert "SEND_OK" in printed
    assert "\na book\n" in printed
    assert printed.count("healthy: ") == 2


def test_the_commands_of_operations(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.create_topic("Orders", 2)
    cluster.create_group("billing")
    with (
        cluster.producer() as producer,
        cluster.push_consumer("billing", listener=lambda messages: None) as consumer,
    ):
        consumer.subscribe("Orders")
        for _ in range(2):  # one to each queue
            producer.send(Message("Orders", b"x"))
        cluster.drain("billing")
    words = commands_of("operations.md")
    ran = [text for text in words if not text.startswith(SERVERS)]
    assert len(ran) >= 20
    codes = {text: run_command(EXAMPLE_ADDRESSES.sub(cluster.namesrv, text)) for text in ran}
    assert {text for text, code in codes.items() if code} == set()


@pytest.mark.process
def test_dead_letters_are_looked_at_and_sent_again(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.create_topic("Orders", 1)
    cluster.create_topic("%DLQ%billing", 1)
    cluster.create_group("billing")
    with cluster.producer() as producer:
        producer.send(Message("%DLQ%billing", b"given up", keys="4711"))
    show, redrive, look, again = commands_of("faq.md")
    assert run_command(show) == 0
    assert "given up" in capsys.readouterr().out
    assert run_command(f"{redrive} --yes") == 0
    assert [m.body for m in cluster.published("%RETRY%billing")] == [b"given up"]
    capsys.readouterr()
    assert run_command(look) == 0
    assert "given up" in capsys.readouterr().out
    first, _, second = again.partition(" | pocketmq ")
    pocketmq = f"{shlex.quote(sys.executable)} -m pocketmq.cli.main"
    subprocess.run(
        f"{pocketmq} {first} | {pocketmq} {second}", shell=True, check=True, timeout=TIMEOUT_S
    )
    assert [(m.body, m.keys) for m in cluster.published("Orders")] == [(b"given up", ("4711",))]


def test_the_commands_about_dead_letters(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.create_topic("%DLQ%billing", 1)
    cluster.create_group("billing")
    with cluster.producer() as producer:
        producer.send(Message("%DLQ%billing", b'{"price": "7"}'))
    commands = commands_of("dead-letters.md")
    assert len(commands) == 5
    for text in commands:
        assert run_command(f"{text} --yes" if "--reason" in text else text) == 0


def test_the_commands_for_data_directories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with LocalCluster(data="pocketmq-data"):
        pass
    words = [text for text in commands_of("operations.md") if text.startswith("store")]
    words = [text for text in words if "pocketmq-data" in text]
    assert [run_command(text) for text in words] == [0, 0]


def test_the_commands_for_backups(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    with cluster.producer() as producer:
        producer.send(Message("Orders", b"kept"))
    words = [text for text in commands_of("operations.md") if text.startswith("store")]
    words = [text for text in words if "pocketmq-data" not in text]
    assert [run_command(text) for text in words] == [0] * 5
    assert "restored/broker-a: 1 message in 1 queue of broker-a" in capsys.readouterr().out


def test_the_python_of_the_first_five_minutes(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    client, test = python_of(DOCS / "quickstart.md")
    exec(client.replace("127.0.0.1:9876", cluster.namesrv), {})
    assert capsys.readouterr().out == "('4712',) b'another book'\n"
    exec(test, {})
