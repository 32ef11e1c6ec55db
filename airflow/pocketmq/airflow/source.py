"""Messages for Airflow: at most so many that are not settled."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from typing import Any

import msgspec

from pocketmq.airflow.target import Target
from pocketmq.client.consumers.work_queue import WorkQueue
from pocketmq.client.errors import ClosedError
from pocketmq.client.instance.instance import ClientInstance
from pocketmq.client.lifecycle import Startable
from pocketmq.client.settings import InvisibleTime, Positive, take_settings
from pocketmq.protocol.messages.message import ReceivedMessage
from pocketmq.protocol.names.names import check_group, check_topic
from pocketmq.protocol.requests.popping import POPPED_MAX
from pocketmq.runtime.clock import Clock

log = logging.getLogger("pocketmq.airflow")

REDELIVERIES_MAX = 16
"""A message that came again so often and fails again is a dead letter."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a source.

    Attributes:
        invisible_ms: for how long nobody else gets a message when this process was killed.
        held_max: how many messages may be neither acknowledged nor given up; then it waits.
    """

    invisible_ms: InvisibleTime = 60_000
    held_max: Positive = 64


class MessageSource(Startable):
    """Pops the messages of a topic for a group, each of which is settled by itself.

    Args:
        target: the cluster.
        topic: need not exist yet.
        group: of all who share the messages.
        expression: tags, such as ``"TagA || TagB"``.
        clock: the source of time.
        limits: fields of `Limits`.

    Raises:
        IllegalNameError, ConfigError.
    """

    def __init__(
        self,
        target: Target,
        topic: str,
        group: str,
        expression: str,
        *,
        clock: Clock | None = None,
        **limits: Any,
    ) -> None:
        check_topic(topic)
        check_group(group)
        self._instance = ClientInstance(target.namesrv, clock=clock, **target.settings)
        self._topic, self._group, self._expression = topic, group, expression
        self._limits, _ = take_settings(Limits, limits)
        self._room = self._limits.held_max
        self._settled = asyncio.Event()
        self._work: WorkQueue | None = None

    async def start(self) -> None:
        """Joins the group. Idempotent."""
        if self._work is None:
            await self._instance.start()
            invisible_ms = self._limits.invisible_ms
            self._work = WorkQueue(
                self._group, [self._topic], self._instance, invisible_ms, self._expression
            )
            await self._work.join()

    async def close(self) -> None:
        """Acknowledges what was handled, and gives back the rest. Idempotent."""
        work, self._work = self._work, None
        if work is not None:
            await work.close()
        await self._instance.close()

    async def messages(self) -> AsyncGenerator[ReceivedMessage, None]:
        """Yields messages, for as long as somebody wants more."""
        work = self._running()
        while True:
            while self._room == 0:
                self._settled.clear()
                await self._settled.wait()
            batch = await work.receive(min(self._room, POPPED_MAX))
            self._room -= len(batch)
            for message in batch:
                if message.reconsume_times > REDELIVERIES_MAX:  # its processes were killed
                    times = message.reconsume_times
                    await self.give_up(message, f"delivered {times} times and never acknowledged")
                else:
                    yield message

    def acknowledge(self, message: ReceivedMessage) -> None:
        """Says soon that a message is done."""
        self._running().acknowledge(message)
        self._make_room()

    async def refuse(self, message: ReceivedMessage, reason: str) -> None:
        """Lets a message come again when its invisible time is over; in the end a dead letter.

        Args:
            message: as it came.
            reason: what the dead letter tells.
        """
        if message.reconsume_times >= REDELIVERIES_MAX:
            await self.give_up(message, reason)
        else:
            self._running().let_go(message)
            self._make_room()

    async def give_up(self, message: ReceivedMessage, reason: str) -> None:
        """Moves a message to the dead letters of the group.

        Args:
            message: as it came.
            reason: what the dead letter tells.
        """
        log.warning("message %s of %s is a dead letter: %s", message.msg_id, self._topic, reason)
        await self._running().give_up(message, reason)
        self._make_room()

    def _make_room(self) -> None:
        self._room += 1
        self._settled.set()

    def _running(self) -> WorkQueue:
        if self._work is None:
            raise ClosedError(f"source of topic {self._topic}")
        return self._work
