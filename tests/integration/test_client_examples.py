"""The files under examples/client, which the guide shows: each runs as it stands."""

from __future__ import annotations

import asyncio
import inspect
import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.peers.schema_registry import schema_registry

from pocketmq.testing import LocalCluster
from pocketmq.testing.cluster import Cluster

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "client"

PRINTED = {
    "send": ["stored: SEND_OK in queue 0", "callback: SEND_OK"],
    "batch": ["sent: 1000 in requests: 1"],
    "delay": ["called back: order 4712 is paid", "reminded: pay order 4711"],
    "ordered": [f"{order} created paid shipped" for order in (4711, 4712, 4713)],
    "transaction": ["4711 COMMIT", "4712 ROLLBACK"],
    "push": ["listener: bill-0 bill-1 bill-2", "iteration: bill-0 bill-1 bill-2"],
    "lite_pull": ["read: 5", "and again: True"],
    "pull": ["at least four: True"],
    "simple": ["handled: 2 attempts of the second: 2"],
    "request_reply": ["apple: 3.20"],
    "filters": ["by tag: ['eu 20', 'eu 200']", "by properties: ['eu 200']"],
    "retries": ["slow bank attempt 3", "no such customer attempt 1", "dead: no such customer"],
    "hooks": ["handled r-1"],
    "schemas": ["1 web", "2 shop"],
    "blocking_client": ["SEND_OK", "listener: dear customer", "polled: dear customer"],
}
WAITING = {"delay", "retries"}
"""What these wait for lies in the future: the cluster's clock is set forward meanwhile."""


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The schema registry that the environment names."""
    with schema_registry() as server:
        monkeypatch.setenv("POCKETMQ_SCHEMA_REGISTRY", server.url)
        yield


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with LocalCluster(broker_settings={"default_topic_queue_nums": 1}) as running:
        yield running


def test_every_example_is_tested_and_shown() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} == PRINTED.keys()
    guide = "".join(
        (ROOT / "docs" / name).read_text("utf-8") for name in ("client.md", "schemas.md")
    )
    assert [name for name in PRINTED if f'--8<-- "examples/client/{name}.py"' not in guide] == []


@pytest.mark.parametrize("name", PRINTED)
def test_an_example_does_what_it_says(
    name: str, cluster: Cluster, registry: None, capsys: pytest.CaptureFixture[str]
) -> None:
    main = runpy.run_path(str(FOLDER / f"{name}.py"))["main"]
    if inspect.iscoroutinefunction(main):
        asyncio.run(travelling(cluster, main, name in WAITING))
    else:
        main(cluster.namesrv)
    printed = capsys.readouterr().out.splitlines()
    assert set(PRINTED[name]) <= set(printed)


async def travelling(cluster: Cluster, main, is_waiting: bool) -> None:  # type: ignore[no-untyped-def]
    running = asyncio.ensure_future(main(cluster.namesrv))
    while is_waiting and not running.done():
        await asyncio.to_thread(cluster.clock.advance, seconds=1)
    await running
