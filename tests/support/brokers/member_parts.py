"""A name server, a broker and members of one group, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from support.brokers.broker_parts import advance_until

from pocketmq.broker import Broker, BrokerConfig
from pocketmq.client import (
    Admin,
    ClientInstance,
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
)
from pocketmq.client.listening.dispatch import Listener
from pocketmq.namesrv import NameServer, NamesrvConfig
from pocketmq.testing.clock import VirtualClock

LOCALHOST = "127.0.0.1"
T = TypeVar("T")

DAY_MS = 86_400_000
QUIET_NAMESRV: dict[str, Any] = {
    "scan_not_active_broker_interval": DAY_MS,
    "broker_expired_timeout": DAY_MS,
}
QUIET_BROKER: dict[str, Any] = {
    "connection_idle_timeout": DAY_MS,
    "register_name_server_period": 60_000,
    "flush_interval_commit_log": 600_000,
    "flush_delay_offset_interval": 600_000,
    "flush_consumer_offset_interval": 600_000,
    "clean_resource_interval": 3_600_000,
}
QUIET_CLIENT: dict[str, Any] = {
    "poll_namesrv_interval_ms": DAY_MS,
    "heartbeat_interval_ms": DAY_MS,
}
QUIET_CONSUMER: dict[str, Any] = {
    "pull_hold_ms": DAY_MS,
    "rebalance_interval_ms": DAY_MS,
    "persist_interval_ms": DAY_MS,
}


class Stage:
    """A name server, a broker with a topic of one queue, and members of one group.

    Args:
        folder: for the broker's data.
        clock: everybody's.
        is_quiet: do as little as can be without an occasion, so that hours pass quickly.
    """

    def __init__(self, folder: Path, clock: VirtualClock, *, is_quiet: bool = False) -> None:
        self._folder, self.clock, self._is_quiet = folder, clock, is_quiet
        self.begun: list[tuple[str, int]] = []
        self.gates: dict[str, asyncio.Event] = {}
        self._members: list[tuple[PushConsumer, ClientInstance]] = []

    @property
    def _client_settings(self) -> dict[str, Any]:
        return QUIET_CLIENT if self._is_quiet else {}

    @property
    def namesrv(self) -> str:
        """The name server's address."""
        return self._namesrv.address

    async def __aenter__(self) -> Stage:
        quiet = QUIET_NAMESRV if self._is_quiet else {}
        config = NamesrvConfig(listen_port=0, bind_address=LOCALHOST, **quiet)
        self._namesrv = await NameServer(config, self.clock).__aenter__()
        self._config = BrokerConfig(
            listen_port=0,
            bind_address=LOCALHOST,
            namesrv_addr=self._namesrv.address,
            store_path_root_dir=str(self._folder),
            disk_space_free_min=0,
            **(QUIET_BROKER if self._is_quiet else {}),
        )
        self.broker = await Broker(self._config, self.clock).__aenter__()
        async with Admin(self._namesrv.address, clock=self.clock) as admin:
            await admin.create_topic("T", 1)
        self.producer = await Producer(
            "pg", self._namesrv.address, clock=self.clock, **self._client_settings
        ).__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        for gate in self.gates.values():
            gate.set()
        for consumer, instance in self._members:
            await self.done(consumer.close())
            await self.done(instance.close())
        await self.done(self.producer.close())
        await self.done(self.broker.close())
        await self.done(self._namesrv.close())

    async def done(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Moves time on until something is done."""
        task = asyncio.ensure_future(coroutine)
        await advance_until(self.clock, task.done, 0.05)
        return task.result()

    async def until(self, condition: Callable[[], object], step_s: float = 0.05) -> float:
        """Moves time on until something has come true; the seconds that took."""
        started_s = self.clock.monotonic()
        await advance_until(self.clock, condition, step_s)
        return self.clock.monotonic() - started_s

    async def send(self, count: int) -> None:
        """Sends so many messages."""
        for _ in range(count):
            await self.done(self.producer.send(Message("T", b"x")))

    async def join(
        self,
        name: str,
        listener: Listener | None = None,
        *,
        is_held: bool = False,
        **settings: Any,
    ) -> PushConsumer:
        """A new member; names sort as members do.

        Args:
            name: of its instance.
            listener: handles its messages. Otherwise it is orderly, and notes what it begins.
            is_held: hold such a one up at each message, until its gate opens.
            settings: of the consumer.
        """
        gate = self.gates[name] = asyncio.Event()
        if not is_held:
            gate.set()

        async def note(messages: list[ReceivedMessage]) -> None:
            self.begun.append((name, messages[0].queue_offset))
            await gate.wait()

        instance = ClientInstance(
            self._namesrv.address, clock=self.clock, instance_name=name, **self._client_settings
        )
        await instance.start()
        if self._is_quiet:
            settings = QUIET_CONSUMER | settings
        settings = {"orderly": listener is None, "close_timeout_ms": 1} | settings
        consumer = PushConsumer(
            "cg",
            instance=instance,
            listener=listener or note,
            consume_from_where="CONSUME_FROM_FIRST_OFFSET",
            **settings,
        )
        consumer.subscribe("T")
        self._members.append((consumer, instance))
        await self.done(consumer.start())
        return consumer

    async def crash(self, consumer: PushConsumer) -> None:
        """A member is gone without a word."""
        await self.done(consumer.instance.close())
        await self.done(consumer.close())

    async def restart(self) -> None:
        """The broker goes away and comes back with the same address."""
        port = int(self.broker.address.rpartition(":")[2])
        await self.done(self.broker.close())
        config = msgspec.structs.replace(self._config, listen_port=port)
        self.broker = await Broker(config, self.clock).__aenter__()
