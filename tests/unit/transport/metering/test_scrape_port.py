from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest
from support.scrapes import scraped

from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.metrics.endpoint import ScrapeRequest
from pocketmq.transport.errors import CannotListenError
from pocketmq.transport.metering.scrape_port import open_scrape_port


async def page(_: ScrapeRequest) -> bytes:
    return b"up 1\n"


async def test_a_page_is_served_until_the_stack_ends() -> None:
    async with AsyncExitStack() as stack:
        port = await open_scrape_port(page, "127.0.0.1", 0, SystemClock(), "it", stack)
        assert [s.name for s in await asyncio.to_thread(scraped, port)] == ["up"]
    with pytest.raises(OSError, match="refused"):
        await asyncio.to_thread(scraped, port)


async def test_a_port_in_use_is_told_with_its_owner() -> None:
    async with AsyncExitStack() as stack:
        port = await open_scrape_port(page, "127.0.0.1", 0, SystemClock(), "the first", stack)
        with pytest.raises(CannotListenError, match="the second"):
            await open_scrape_port(page, "127.0.0.1", port, SystemClock(), "the second", stack)
