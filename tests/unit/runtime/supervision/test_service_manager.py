from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.supervision.service_manager import STATUS_SIZE_MAX, ServiceManager


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    """The socket of a service manager."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as inbox:
        inbox.bind(str(tmp_path / "notify"))
        inbox.settimeout(20)
        yield inbox


def told(manager: socket.socket) -> list[str]:
    return manager.recv(4096).decode().split("\n")


def of(manager: socket.socket, **further: str) -> ServiceManager:
    environment = {"NOTIFY_SOCKET": manager.getsockname(), **further}
    found = ServiceManager.of_environment(environment)
    assert found is not None
    assert not environment, "processes that are started from here on do not speak for this one"
    return found


async def test_a_manager_is_told_of_the_start_and_of_the_stop(manager: socket.socket) -> None:
    service = of(manager)
    service.serving(SystemClock(), "up broker-a=127.0.0.1:10911\nREADY=0")
    service.stopping()
    await service.close()
    assert told(manager) == ["READY=1", "STATUS=up broker-a=127.0.0.1:10911 READY=0"]
    assert told(manager) == ["STOPPING=1", "STATUS=stopping"]


async def test_a_status_has_a_bounded_size(manager: socket.socket) -> None:
    of(manager).serving(SystemClock(), "x" * 10_000)
    assert told(manager)[1] == "STATUS=" + "x" * STATUS_SIZE_MAX


async def test_signs_of_life_come_until_the_end_of_the_stop(manager: socket.socket) -> None:
    service = of(manager, WATCHDOG_USEC="20000", WATCHDOG_PID=str(os.getpid()))
    assert service.watchdog_s == 0.02
    service.serving(SystemClock(), "up")
    assert told(manager)[0] == "READY=1"
    manager.setblocking(False)
    loop = asyncio.get_running_loop()
    assert await loop.sock_recv(manager, 4096) == b"WATCHDOG=1"
    service.stopping()
    seen = [await loop.sock_recv(manager, 4096) for _ in range(4)]
    assert seen.index(b"STOPPING=1\nSTATUS=stopping") < seen.index(b"WATCHDOG=1", 2)
    await service.close()


async def test_the_watchdog_of_another_process_is_left_alone(manager: socket.socket) -> None:
    assert of(manager, WATCHDOG_USEC="20000", WATCHDOG_PID="1").watchdog_s == 0


@pytest.mark.parametrize("address", ["", "relative", "vsock:2:1"])
def test_without_a_manager_nobody_is_told(address: str) -> None:
    assert ServiceManager.of_environment({"NOTIFY_SOCKET": address}) is None


async def test_the_abstract_namespace() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as inbox:
        inbox.bind(f"\0pocketmq-{os.getpid()}")
        inbox.settimeout(20)
        ServiceManager(f"@pocketmq-{os.getpid()}").tell("READY=1")
        assert told(inbox) == ["READY=1"]


async def test_a_manager_that_is_gone_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        ServiceManager(str(tmp_path / "gone")).tell("READY=1")
    assert "was not told READY=1" in caplog.text
