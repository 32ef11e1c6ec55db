"""The servers of a broker set, each a process on a machine of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec
from support.failover.world import SmallDisk, World

from pocketmq.runtime.clock import SystemClock

PORT, NAMESRV_PORT = 10911, 9876
DISK_SIZE = 96 * 1024 * 1024


class Machine:
    """A machine with one server, which can be killed, stopped, and started again.

    Args:
        world: in which it is.
        name: its name.
        log_path: takes what the server says.
        environment: variables of the server, beside those of this process.

    Attributes:
        host: its address.
        is_paused: whether its process is stopped.
        started_s: when its process was started.
    """

    def __init__(
        self, world: World, name: str, log_path: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.name, self._world = name, world
        self.host = world.add_machine(name)
        self._log_path, self._environment = log_path, dict(environment or {})
        self._process: subprocess.Popen[bytes] | None = None
        self.is_paused = False
        self.started_s = 0.0

    def command(self) -> list[str]:
        """The arguments of `pocketmq` that start the server."""
        raise NotImplementedError

    @property
    def is_running(self) -> bool:
        """Whether there is a process, stopped or not."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Starts the server; returns at once."""
        assert not self.is_running
        self.started_s = SystemClock.monotonic()
        with self._log_path.open("ab") as log:
            log.write(b"-- started\n")
            self._process = subprocess.Popen(
                self._world.on(
                    self.name, sys.executable, "-m", "pocketmq.cli.main", *self.command()
                ),
                env={**os.environ, **self._environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def kill(self) -> None:
        """Ends the process without a word; the system closes its connections."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self.is_paused = False

    def pause(self) -> None:
        """Stops the process: its connections stay, and nobody answers."""
        if self.is_running:
            self._signal(signal.SIGSTOP)
            self.is_paused = True

    def resume(self) -> None:
        """Lets the process go on, without a notion that it was stopped."""
        if self.is_paused:
            self._signal(signal.SIGCONT)
            self.is_paused = False

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        with suppress(ProcessLookupError):
            self._process.send_signal(number)

    async def stop(self) -> int:
        """Stops the server as an operator does; returns its exit code."""
        assert self._process is not None
        self._process.terminate()
        return await asyncio.to_thread(self._process.wait)


class Member(Machine):
    """A broker of the set, with a small disk of its own.

    Args:
        world, environment: see `Machine`.
        folder: of the run.
        member_id: from 1 on.
        namesrv: the address of the name server, which has the arbiter.
        settings: further settings, under the keys of its YAML file.
    """

    def __init__(
        self,
        world: World,
        folder: Path,
        member_id: int,
        namesrv: str,
        settings: Mapping[str, object],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        name = f"member{member_id}"
        super().__init__(world, name, folder / f"{name}.log", environment)
        self.member_id = member_id
        self.directory = folder / name
        self.disk = SmallDisk(self.directory, DISK_SIZE)
        self.address = f"{self.host}:{PORT}"
        self._settings = {
            "brokerName": "a",
            "brokerId": member_id,
            "enableControllerMode": True,
            "namesrvAddr": namesrv,
            "listenPort": PORT,
            "bindAddress": self.host,
            "insecure": True,
            "storePathRootDir": str(self.directory / "store"),
            "autoCreateTopicEnable": False,
            "diskSpaceFreeMin": 0,
            "diskSpaceWarningLevelRatio": 100,
            "diskSpaceCleanForciblyRatio": 100,
            "vipChannelEnable": False,
            **settings,
        }

    def command(self) -> list[str]:
        return ["broker", "-v", "--settings", msgspec.json.encode(self._settings).decode()]

    @property
    def store_directory(self) -> Path:
        """Its data."""
        return self.directory / "store"


class ArbiterMachine(Machine):
    """The name server, which has the arbiter."""

    def __init__(self, world: World, folder: Path) -> None:
        super().__init__(world, "arbiter", folder / "arbiter.log")
        self.address = f"{self.host}:{NAMESRV_PORT}"
        self._config = folder / "namesrv.json"  # which is YAML, too
        self._config.write_bytes(
            msgspec.json.encode(
                {
                    "listenPort": NAMESRV_PORT,
                    "bindAddress": self.host,
                    "insecure": True,
                    "arbiterPath": str(folder / "arbiter.db"),
                }
            )
        )

    def command(self) -> list[str]:
        return ["namesrv", "-v", "-c", str(self._config)]
