from __future__ import annotations

import asyncio

from pocketmq.transport.runtime import run


def test_runs_on_uvloop() -> None:
    async def main() -> str:
        return type(asyncio.get_running_loop()).__module__

    assert run(main()).startswith("uvloop")
