"""A real broker in a process of its own, to be killed."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path


class BrokerProcess:
    """One run of `pocketmq broker`.

    Args:
        directory: its data.
        settings: further settings, under the keys of its YAML file.
    """

    def __init__(self, directory: Path, **settings: object) -> None:
        self._settings = {
            "listenPort": 0,
            "bindAddress": "127.0.0.1",
            "storePathRootDir": str(directory),
            # A slow machine makes senders wait: none is to be refused before its broker is killed.
            "brokerFastFailureEnable": False,
            **settings,
        }
        self.address = ""

    async def __aenter__(self) -> BrokerProcess:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "pocketmq.cli.main", "broker",
            "--settings", json.dumps(self._settings), "--stop-with-stdin",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert self._process.stdout is not None
        line = (await self._process.stdout.readline()).decode()
        assert line.startswith("up "), f"the broker did not start: {line!r}"
        self.address = line.split("=", 1)[1].strip()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._process.returncode is None:
            self._process.terminate()
            assert await self._process.wait() == 0

    async def kill(self) -> None:
        """Ends it as a power cut of the process: nothing can be said any more."""
        self._process.kill()
        assert await self._process.wait() == -signal.SIGKILL
