"""`kill -9` of brokers and workers, of Celery and Taskiq: every task is done at least once."""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Protocol

import pytest
from support.crash.broker_process import BrokerProcess
from support.kombu import celery_app
from support.taskiq import taskiq_app
from support.worker_process import CELERY, TASKIQ, WorkerProcess, lines_of
from taskiq.exceptions import SendTaskError

from pocketmq.broker.store.mending.check import check_directory
from pocketmq.namesrv import NameServer, NamesrvConfig
from pocketmq.runtime.clock import SystemClock
from pocketmq.taskiq import PocketMQBroker

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]

TASKS_A_ROUND = 150
DONE_BEFORE_KILL_MAX = 100
SEND_ATTEMPTS_MAX = 200
SEND_PAUSE_S = 0.1
DONE_S_MAX = 120.0
POLL_S = 0.02


class Framework(Protocol):
    """Sends tasks, each until a broker has it, which its workers do."""

    worker: tuple[str, ...]

    async def send(self, namesrv: str, numbers: range) -> None: ...


class WithCelery:
    worker = CELERY

    async def send(self, namesrv: str, numbers: range) -> None:
        url = f"pocketmq://{namesrv}"
        celery_app.app.conf.update(broker_url=url, broker_write_url=url)
        await asyncio.to_thread(self._send, numbers)

    def _send(self, numbers: range) -> None:
        policy = {
            "max_retries": SEND_ATTEMPTS_MAX, "interval_start": SEND_PAUSE_S, "interval_step": 0,
        }  # fmt: skip
        with celery_app.app.connection_for_write() as connection:
            for number in numbers:
                celery_app.count.apply_async(
                    (number,), connection=connection, retry=True, retry_policy=policy
                )


class WithTaskiq:
    worker = TASKIQ

    async def send(self, namesrv: str, numbers: range) -> None:
        clock, broker = SystemClock(), PocketMQBroker(namesrv)
        kicker = taskiq_app.count.kicker().with_broker(broker)
        async with broker:
            for number in numbers:
                for _ in range(SEND_ATTEMPTS_MAX):
                    try:
                        await kicker.kiq(number)
                    except SendTaskError:
                        await clock.sleep(SEND_PAUSE_S)
                    else:
                        break


def numbers_in(done: Path) -> set[int]:
    return {int(line) for line in lines_of(done)}


async def wait_for(done: Path, count: int) -> None:
    """Waits until so many different tasks were done."""
    clock = SystemClock()
    end_s = clock.monotonic() + DONE_S_MAX
    while len(numbers_in(done)) < count:
        assert clock.monotonic() < end_s, f"{len(numbers_in(done))} of {count} tasks are done"
        await clock.sleep(POLL_S)


@pytest.mark.parametrize("framework", [WithCelery(), WithTaskiq()], ids=lambda f: f.worker[0])
async def test_every_task_is_done(
    framework: Framework, tmp_path: Path, chance: random.Random, rounds: int, quiet: None
) -> None:
    done, directory = tmp_path / "done", tmp_path / "broker"
    done.touch()
    async with AsyncExitStack() as brokers, AsyncExitStack() as stack:
        namesrv = await stack.enter_async_context(
            NameServer(NamesrvConfig(listen_port=0, bind_address="127.0.0.1"))
        )
        settings: dict[str, object] = {"namesrvAddr": namesrv.address}
        broker = await brokers.enter_async_context(BrokerProcess(directory, **settings))
        settings["listenPort"] = int(broker.address.rpartition(":")[2])  # it comes back there
        worker = await stack.enter_async_context(
            WorkerProcess(framework.worker, namesrv.address, done)
        )
        for number in range(rounds):
            numbers = range(number * TASKS_A_ROUND, (number + 1) * TASKS_A_ROUND)
            sending = asyncio.create_task(framework.send(namesrv.address, numbers))
            await wait_for(done, numbers.start + chance.randrange(1, DONE_BEFORE_KILL_MAX))
            await broker.kill()
            if number % 2:
                await worker.kill()
                await worker.start()
            broker = await brokers.enter_async_context(BrokerProcess(directory, **settings))
            await sending
            await wait_for(done, numbers.stop)
    assert numbers_in(done) == set(range(rounds * TASKS_A_ROUND))
    assert check_directory(directory).problems == []
