"""The recipe for FastStream, which its page shows."""

from __future__ import annotations

import asyncio
import runpy
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from faststream import FastStream

from pocketmq.client import Message, PushConsumer
from pocketmq.testing import LocalCluster

ROOT = Path(__file__).parents[2]
RECIPE = ROOT / "examples" / "faststream" / "orders.py"
WAIT_S = 20.0


@pytest.fixture(scope="module")
def recipe() -> dict[str, Any]:
    return runpy.run_path(str(RECIPE))


def test_the_page_shows_the_recipe() -> None:
    page = (ROOT / "docs" / "faststream.md").read_text("utf-8")
    assert f'--8<-- "{RECIPE.relative_to(ROOT)}"' in page


async def test_an_order_is_billed_and_what_is_none_is_a_dead_letter(
    recipe: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    async with LocalCluster(grpc_port=-1) as cluster:
        await recipe["main"](cluster.namesrv)
        printed = capsys.readouterr().out.splitlines()
        assert printed == ["billing 4711", 'receipt 4711 {"number":4711,"total":"11.90"}']
        await cluster.expect("%DLQ%billing", key="4712", timeout_s=WAIT_S)


async def test_a_handler_that_fails_gets_the_message_again(recipe: dict[str, Any]) -> None:
    numbers: list[int] = []
    done = asyncio.Event()

    async def bill(order) -> None:  # type: ignore[no-untyped-def]
        numbers.append(order.number)
        if len(numbers) == 1:
            raise ConnectionError("no bank")
        done.set()

    bill.__annotations__["order"] = recipe["Order"]
    async with LocalCluster(grpc_port=-1) as cluster:
        await cluster.create_topic("Orders", 1)
        async with cluster.producer() as producer:
            await producer.send(Message("Orders", '{"number": 1, "price": 1}'))
            consumer = cluster.push_consumer(
                "billing", listener=recipe["listener_of"](bill, producer, "Receipts"), mode="pop"
            )
            consumer.subscribe("Orders")
            async with consumer:
                while not done.is_set():
                    await cluster.clock.advance(seconds=5)
    assert numbers == [1, 1]


async def test_an_application_of_faststream_enters_a_consumer(recipe: dict[str, Any]) -> None:
    billed = asyncio.Event()

    async def bill(order) -> None:  # type: ignore[no-untyped-def]
        billed.set()

    bill.__annotations__["order"] = recipe["Order"]
    async with LocalCluster(grpc_port=-1) as cluster, cluster.producer() as producer:
        await cluster.create_topic("Orders", 1)
        listener = recipe["listener_of"](bill, producer, "Receipts")
        consumer = PushConsumer("billing", cluster.namesrv, listener=listener, mode="pop")
        consumer.subscribe("Orders")

        @asynccontextmanager
        async def lifespan() -> AsyncIterator[None]:
            async with consumer:
                yield

        app = FastStream(lifespan=lifespan)
        async with app.lifespan_context():  # `run` begins with it
            await producer.send(Message("Orders", '{"number": 1, "price": 1}'))
            await asyncio.wait_for(billed.wait(), WAIT_S)
