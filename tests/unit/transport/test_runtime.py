from __future__ import annotations

import asyncio
import gc

from pocketmq.transport.runtime import run, spare_what_stays


def test_runs_on_uvloop() -> None:
    async def main() -> str:
        return type(asyncio.get_running_loop()).__module__

    assert run(main()).startswith("uvloop")


def test_the_collector_looks_no_more_at_what_stays() -> None:
    stays: list[list[int]] = [[]]
    try:
        spare_what_stays()
        assert not any(tracked is stays for tracked in gc.get_objects())
        assert gc.get_freeze_count()
    finally:
        gc.unfreeze()
