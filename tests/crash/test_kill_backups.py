"""Backups under load are killed, and the machine is lost: nothing is missing that was acknowledged
before the last whole backup began, and a backup that is killed at any step leaves the earlier ones.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from crash.test_kill import (
    CALL_TIMEOUT_MS,
    QUEUES,
    TOPIC,
    Acknowledged,
    check_nothing_lost,
    send_request,
    stored_messages,
)
from support.crash.broker_process import BrokerProcess

from pocketmq.broker.backup.checking import check_backups
from pocketmq.broker.backup.directory import BackupDirectory
from pocketmq.broker.backup.restoring import restore
from pocketmq.broker.store.mending.check import check_directory
from pocketmq.protocol.bodies.clients import GroupConfig
from pocketmq.protocol.requests.offsets import (
    OffsetResponse,
    QueryConsumerOffsetRequest,
    UpdateConsumerOffsetRequest,
)
from pocketmq.protocol.requests.sending import SendMessageResponse
from pocketmq.protocol.requests.topics import UpdateGroupRequest
from pocketmq.runtime.clock import SystemClock
from pocketmq.transport.pool import ConnectionPool

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]

SENDERS = 2
SENT_BETWEEN = 100
KILLS_MAX, TRIES_OF_A_KILL_MAX = 8, 3


@asynccontextmanager
async def sending(address: str, acknowledged: Acknowledged) -> AsyncIterator[None]:
    """Sends all the while, from several connections; what was acknowledged is noted."""
    is_over = False

    async def sender(number: int) -> None:
        pool = ConnectionPool(SystemClock())
        chance = random.Random(number)
        count = 0
        while not is_over:
            body = f"{number}/{len(acknowledged)}/".encode() * chance.randrange(1, 60)
            request = send_request(count % QUEUES)
            answer = await pool.ask_for(
                address, request, SendMessageResponse, CALL_TIMEOUT_MS, body
            )
            acknowledged[answer.queue_id, answer.queue_offset] = body
            count += 1
        await pool.close()

    tasks = [asyncio.ensure_future(sender(number)) for number in range(SENDERS)]
    try:
        yield
    finally:
        is_over = True
        await asyncio.gather(*tasks)


async def until_sent(acknowledged: Acknowledged, address: str) -> None:
    """Returns when more messages are acknowledged, and a group has consumed some of them."""
    pool = ConnectionPool(SystemClock())
    for _ in range(SENT_BETWEEN):
        answer = await pool.ask_for(
            address, send_request(0), SendMessageResponse, CALL_TIMEOUT_MS, b"x"
        )
        acknowledged[answer.queue_id, answer.queue_offset] = b"x"
    group = GroupConfig(group_name="crash").encode()
    await pool.ask(address, UpdateGroupRequest(), CALL_TIMEOUT_MS, group)
    await pool.ask(
        address,
        UpdateConsumerOffsetRequest(
            consumer_group="crash", topic=TOPIC, queue_id=0, commit_offset=answer.queue_offset
        ),
        CALL_TIMEOUT_MS,
    )
    await pool.close()


async def consumed(address: str) -> int:
    pool = ConnectionPool(SystemClock())
    request = QueryConsumerOffsetRequest(
        consumer_group="crash", topic=TOPIC, queue_id=0, set_zero_if_not_found=False
    )
    answer = await pool.ask_for(address, request, OffsetResponse, CALL_TIMEOUT_MS)
    await pool.close()
    return answer.offset


async def back_up(backups: Path, address: str, step: int = 0) -> int:
    """Makes a backup whose process is killed at a step, unless that is 0.

    Returns:
        the steps of a whole backup; 0 if it was killed.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "support.crash.killed_at", str(step), str(backups),
        "store", "backup", str(backups), "--broker", address, "--keep", "2",
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[1],
    )  # fmt: skip
    _, errors = await process.communicate()
    if step and process.returncode == -signal.SIGKILL:
        return 0
    assert process.returncode == 0, errors.decode()
    return int(errors.split()[-1])


async def test_backups_that_are_killed_and_a_machine_that_is_lost(
    tmp_path: Path, seed: int, pytestconfig: pytest.Config
) -> None:
    chance = random.Random(seed)
    kills = min(KILLS_MAX, 2 * pytestconfig.option.crash_rounds)
    data, backups = tmp_path / "data", tmp_path / "elsewhere" / "backups"
    acknowledged: Acknowledged = {}
    async with BrokerProcess(data, segmentSize=65536) as broker:
        async with sending(broker.address, acknowledged):
            await until_sent(acknowledged, broker.address)
            await back_up(backups, broker.address)
            await until_sent(acknowledged, broker.address)
            before, offset = dict(acknowledged), await consumed(broker.address)
            steps = await back_up(backups, broker.address)
            killed = 0
            for _ in range(kills * TRIES_OF_A_KILL_MAX):
                await until_sent(acknowledged, broker.address)
                whole = BackupDirectory(backups).read()
                done = await back_up(backups, broker.address, chance.randrange(1, steps))
                assert check_backups(backups).problems == []
                if done:  # what has fewer packs to write and to remove has fewer steps
                    steps = done
                    continue
                killed += 1
                last_whole = BackupDirectory(backups).read()
                assert last_whole.number in (whole.number, whole.number + 1)
                assert BackupDirectory(backups).read(whole.number) == whole
                if killed == kills:
                    break
            assert killed == kills
            await restore(backups, tmp_path / "try", SystemClock())
            assert check_directory(tmp_path / "try").problems == []
            last, last_offset = dict(acknowledged), await consumed(broker.address)
            await back_up(backups, broker.address)
        await broker.kill()
    shutil.rmtree(data)
    assert before.items() <= last.items()
    assert offset < last_offset

    await restore(backups, data, SystemClock())
    assert check_directory(data).problems == []
    async with BrokerProcess(data, segmentSize=65536) as broker:
        check_nothing_lost(await stored_messages(broker.address), last)
        assert await consumed(broker.address) >= last_offset
