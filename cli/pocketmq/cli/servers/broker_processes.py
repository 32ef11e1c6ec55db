"""Runs the brokers of a cluster as processes of their own, which end with this one."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import Mapping

from pocketmq.cli.servers.secure import Security
from pocketmq.protocol.errors import OperatingError


class BrokerProcess:
    """One broker in a process.

    Args:
        name: how the process is called in messages and files.
        settings: of the broker, under the keys of its YAML file.
        security: credentials and keys; None lets everybody do everything.

    Attributes:
        name: the same.
        address: where clients reach the broker, ``host:port``; empty before its start.
    """

    def __init__(
        self, name: str, settings: Mapping[str, object], security: Security | None
    ) -> None:
        self.name, self._settings, self._security = name, settings, security
        self._process: asyncio.subprocess.Process | None = None
        self.address = ""

    @property
    def pid(self) -> int:
        """The number of the process; 0 before its start."""
        return 0 if self._process is None else self._process.pid

    async def start(self) -> None:
        """Starts the broker, and returns when it is up.

        Raises:
            OperatingError: it does not start; it has said why.
        """
        given = ("--settings", json.dumps(self._settings))
        if self._security is not None:
            file = self._security.settings_file(self.name.replace("/", "-"), self._settings)
            given = ("--config", str(file))
        self._process = process = await _process(
            sys.executable, "-m", "pocketmq.cli.main", "broker", *given, "--stop-with-stdin"
        )
        assert process.stdout is not None
        line = (await process.stdout.readline()).decode()
        word, _, address = line.strip().partition(f"{self._settings['brokerName']}=")
        if not word.startswith("up") or not address:
            code = await process.wait()
            raise OperatingError(
                f"{self.name} did not start (exit code {code}): its reason is above. Of ports and "
                f"directories that are in use, --broker-port and --data or --memory choose others"
            )
        self.address = address

    async def wait(self) -> int:
        """Returns the exit code when the process has ended; minus the signal if one ended it."""
        assert self._process is not None
        return await self._process.wait()

    async def stop(self) -> None:
        """Stops the process cleanly, if it runs. Idempotent."""
        if self._process is not None:
            await _stop(self._process)


async def _process(*command: str) -> asyncio.subprocess.Process:
    """Starts a process; a caller that is cancelled meanwhile leaves none behind."""
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        await _stop(await starting)
        raise


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
    await process.wait()
