"""Name servers, brokers and clients of this release and the one before work with each other.

A slice of it runs always; `make upgrade` runs all. The code of the release before comes from the
repository's history: a shallow clone skips these tests (`git fetch --unshallow`).
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from support.upgrades import bulk, exchange, fill
from support.upgrades.releases import BEFORE, THIS, command, environment, program, unpacked_or_skip
from support.upgrades.servers import broker, name_server

from pocketmq.runtime import VERSION

pytestmark = [pytest.mark.process, pytest.mark.timeout(900)]

SLICE = ("sends_of_all_kinds", "pushes", "consumes_in_order", "transactions", "timers_and_recalls")
"""The scenarios that every run takes."""

RACES = {"unknown_topics"}
"""Scenarios of 0.1.0 that fail there, too, if the broker's next registration takes a moment."""

BEYOND = pytest.mark.whole_upgrade

RUNS = [
    pytest.param(THIS, THIS, BEFORE, SLICE, id="clients-of-before"),
    pytest.param(BEFORE, BEFORE, THIS, SLICE, id="servers-of-before"),
    pytest.param(THIS, THIS, BEFORE, (), marks=BEYOND, id="clients-of-before-whole"),
    pytest.param(BEFORE, BEFORE, THIS, (), marks=BEYOND, id="servers-of-before-whole"),
    pytest.param(THIS, BEFORE, BEFORE, (), marks=BEYOND, id="name-server-of-this-whole"),
    pytest.param(BEFORE, THIS, THIS, (), marks=BEYOND, id="name-server-of-before-whole"),
]


def outcomes(client: str, namesrv: str, *names: str) -> dict[str, str | None]:
    """Runs a release's scenarios; returns what went wrong, by scenario."""
    tests = unpacked_or_skip(client) / "tests"
    done = subprocess.run(
        [sys.executable, exchange.__file__, str(tests), namesrv, *names],
        env=environment(client), cwd=tempfile.gettempdir(),
        capture_output=True, text=True, timeout=800, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return {row["scenario"]: row["error"] for row in rows}


@pytest.mark.parametrize(("namesrv_of", "broker_of", "client_of", "names"), RUNS)
def test_all_that_clients_do(
    namesrv_of: str, broker_of: str, client_of: str, names: tuple[str, ...], tmp_path: Path
) -> None:
    unpacked_or_skip(BEFORE)
    with (
        name_server(namesrv_of, tmp_path) as namesrv,
        broker(
            broker_of,
            tmp_path / "data",
            namesrv,
            transactionCheckInterval=200,
            transactionTimeOut=100,
        ),
    ):
        all_of_them = (exchange.WITHOUT_POPS,) if broker_of == BEFORE else ()
        found = outcomes(client_of, namesrv, *(names or all_of_them))
    assert len(found) >= (len(names) or 30)
    assert {name: e for name, e in found.items() if e is not None and name not in RACES} == {}


@pytest.mark.parametrize("server", [THIS, BEFORE])
def test_bulk_requests_and_the_greeting(server: str, tmp_path: Path) -> None:
    unpacked_or_skip(BEFORE)
    other = BEFORE if server == THIS else THIS
    with (
        name_server(server, tmp_path) as namesrv,
        broker(server, tmp_path / "data", namesrv),
    ):
        for client in (other, server):
            done = program(client, Path(bulk.__file__), namesrv, f"by-{client.replace('.', '-')}")
            told = json.loads(done.stdout)
            assert told["peer_is_pocketmq"]
            assert told["bodies"] == [f"bulk {n}" for n in range(bulk.COUNT)]


def test_brokers_of_both_releases_share_a_name_server_and_its_topics(tmp_path: Path) -> None:
    unpacked_or_skip(BEFORE)
    with (
        name_server(THIS, tmp_path) as namesrv,
        broker(BEFORE, tmp_path / "a", namesrv, name="broker-a") as old,
        broker(THIS, tmp_path / "b", namesrv, name="broker-b") as new,
    ):
        there = ("--namesrv", namesrv)
        for client in (BEFORE, THIS):
            topic = f"of-{client.replace('.', '-')}"
            done(client, "topic", "create", topic, "--queues", "2", *there)
            lines = "".join(f"{n}\n" for n in range(20))
            done(client, "produce", topic, *there, stdin=lines)
            for reader in (BEFORE, THIS):
                told = done(reader, "tail", topic, "-o" if reader == BEFORE else "-O", "beginning",
                            "-e", *there)  # fmt: skip
                assert sorted(told.split(), key=int) == lines.split()
        rows = listed(done(THIS, "cluster", "list", "-o", "json", *there))
        assert {row["address"]: row["release"] for row in rows} == {old: None, new: VERSION}
        findings = listed(command(THIS, "doctor", "-o", "json", *there).stdout)
        assert any(
            f"broker-a: PocketMQ before 0.2.0; broker-b: PocketMQ {VERSION}" in str(finding)
            for finding in findings
        )


@BEYOND
@pytest.mark.parametrize(("first", "then"), [(BEFORE, THIS), (THIS, BEFORE)])
def test_a_name_server_goes_on_with_the_configuration_of_the_other_release(
    first: str, then: str, tmp_path: Path
) -> None:
    unpacked_or_skip(BEFORE)
    script = tmp_path / "kv.py"
    script.write_text(KV)
    with name_server(first, tmp_path) as namesrv:
        program(first, script, namesrv, "put", "a:4")
    with name_server(then, tmp_path) as namesrv:
        assert program(THIS, script, namesrv, "get").stdout == "a:4"
        program(then, script, namesrv, "put", "größe")
    with name_server(first, tmp_path) as namesrv:
        assert program(first, script, namesrv, "get").stdout == "größe"


KV = """
import asyncio, sys
from pocketmq.client import Admin

async def main(namesrv, verb, *value):
    async with Admin(namesrv) as admin:
        if verb == "put":
            await admin.kv_put("ORDER_TOPIC_CONFIG", "Orders", *value)
        else:
            sys.stdout.write(await admin.kv_get("ORDER_TOPIC_CONFIG", "Orders"))

asyncio.run(main(*sys.argv[1:]))
"""


def test_what_the_release_before_cannot_do_is_refused_with_what_helps(tmp_path: Path) -> None:
    unpacked_or_skip(BEFORE)
    with (
        name_server(BEFORE, tmp_path) as namesrv,
        broker(BEFORE, tmp_path / "data", namesrv),
    ):
        there = ("--namesrv", namesrv)
        done(THIS, "topic", "create", "%DLQ%billing", "--queues", "1", *there)
        for words in (("dlq", "redrive", "billing"), ("dlq", "list")):
            refused = command(THIS, *words, *there)
            assert refused.returncode == 1
            assert "pocketmq doctor" in refused.stderr
            assert "Traceback" not in refused.stderr


def done(release: str, *words: str, stdin: str = "") -> str:
    """What a command printed that must succeed."""
    run = command(release, *words, stdin=stdin)
    assert run.returncode == 0, (words, run.stderr)
    return run.stdout


def listed(text: str) -> list[dict[str, Any]]:
    """The rows of a listing in JSON."""
    told = json.loads(text)
    rows: list[dict[str, Any]] = told if isinstance(told, list) else told["findings"]
    return rows


COMMANDS = [
    "topic list",
    "topic show Orders",
    "topic stats Orders",
    "topic create Fresh --queues 2",
    "send Fresh hello --key k1",
    "message find Orders --key key3",
    "group list",
    "group show billing",
    "group lag billing",
    "group offsets auditors",
    "group reset auditors --topic Orders --to earliest",
    "cluster list",
    "broker stats",
    "broker config get",
    "snapshot",
    "topic delete Fresh",
]
"""Commands that both releases have, with the same options."""


@BEYOND
@pytest.mark.parametrize(("servers", "client"), [(THIS, BEFORE), (BEFORE, THIS)])
def test_commands_that_both_releases_have(servers: str, client: str, tmp_path: Path) -> None:
    unpacked_or_skip(BEFORE)
    with (
        name_server(servers, tmp_path) as namesrv,
        broker(servers, tmp_path / "data", namesrv),
    ):
        expected = str(tmp_path / "expected.json")
        program(servers, Path(fill.__file__), namesrv, expected, "everything")
        for words in COMMANDS:
            told = done(client, *words.split(), "--namesrv", namesrv)
            assert told or words.startswith(("topic create", "topic delete"))
        examined = command(client, "doctor", "-o", "json", "--namesrv", namesrv)
        assert examined.returncode == 1, "there are dead letters, and a group without members"
        assert {finding["severity"] for finding in listed(examined.stdout)} == {"warning"}
