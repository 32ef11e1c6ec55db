"""The Python of the README runs as it stands, and that of the documentation can."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from support.python_blocks import ROOT, check_blocks, python_of

from pocketmq.broker import Broker, BrokerConfig
from pocketmq.namesrv import NameServer, NamesrvConfig
from pocketmq.testing.cluster import Cluster

OF_AIRFLOW = "airflow.md"
"""Is held by tests/airflow: only `make airflow` installs what it imports."""

DOCUMENTS = [
    ROOT / "README.md",
    *(page for page in sorted((ROOT / "docs").glob("*.md")) if page.name != OF_AIRFLOW),
]
LOCALHOST = "127.0.0.1"


def block_with(word: str, document: Path = ROOT / "README.md") -> str:
    """The one block of a document that has a word in it."""
    (block,) = [block for block in python_of(document) if word in block]
    return block


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_block_is_python_and_imports_what_there_is(document: Path) -> None:
    check_blocks(document)


async def test_a_message_is_sent_and_handled(tmp_path: Path) -> None:
    printed = asyncio.Event()
    output: list[tuple[Any, ...]] = []

    def note(*values: Any) -> None:
        output.append(values)
        if len(output) == 2:
            printed.set()

    async with NameServer(NamesrvConfig(listen_port=0, bind_address=LOCALHOST)) as names:
        config = BrokerConfig(
            listen_port=0,
            bind_address=LOCALHOST,
            namesrv_addr=names.address,
            store_path_root_dir=str(tmp_path),
        )
        async with Broker(config):
            block = block_with("PushConsumer")
            for old, new in (
                (r"127\.0\.0\.1:9876", names.address),
                (r"asyncio\.\w+\(5\)", "printed.wait()"),
                (r"asyncio\.run\(main\(\)\)", ""),
            ):
                block, found = re.subn(old, new, block)
                assert found
            scope: dict[str, Any] = {"print": note, "printed": printed}
            exec(block, scope)
            await scope["main"]()
    (status, msg_id), handled = output
    assert (status.name, len(msg_id)) == ("SEND_OK", 32)
    assert handled == (("4711",), b"...")


def test_two_hours_pass_inside_a_test(pocketmq: Cluster) -> None:
    scope: dict[str, Any] = {}
    exec(block_with("test_a_reminder"), scope)
    scope["test_a_reminder_comes_after_two_hours"](pocketmq)


async def test_the_servers_inside_a_test(tmp_path: Path) -> None:
    scope: dict[str, Any] = {}
    exec(block_with("async def test_orders", ROOT / "docs" / "testing.md"), scope)
    await scope["test_orders"](tmp_path)
