"""A cluster in one event loop: its name server, its brokers, its clock, and how they start and end.

Everything here runs on the cluster's own loop; `pocketmq.testing.cluster` is what tests use.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import tempfile
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from pocketmq.broker import Broker, BrokerConfig
from pocketmq.namesrv import NameServer
from pocketmq.protocol.bodies.clients import GroupConfig
from pocketmq.protocol.bodies.routes import AdvertiseRule
from pocketmq.protocol.bodies.topics import TopicConfig
from pocketmq.protocol.errors import UsageError
from pocketmq.protocol.names import names
from pocketmq.runtime.clock import Clock, SystemClock
from pocketmq.testing.fault_points import FaultyFiles
from pocketmq.testing.settings import (
    ClusterSettings,
    broker_config,
    broker_name,
    namesrv_config,
)
from pocketmq.testing.settling import Settling
from pocketmq.testing.travel_clock import ClientClock, TravelClock, WatchedClock

if TYPE_CHECKING:
    from pocketmq.testing.fault_table import FaultTable

log = logging.getLogger("pocketmq.testing")

RETENTION_ROUNDS_MAX = 100
"""Rounds of retention after a jump; each removes a bounded number of segments."""


class BrokerPlace:
    """One broker of a cluster: running or not, it keeps its name, port and data.

    Args:
        config: its settings; the port is the bound one from the first start on.
        clock: its time.
        seed: of its choices.

    Attributes:
        broker: while it runs.
        files: its disk.
        on_started: called after each start.
    """

    def __init__(self, config: BrokerConfig, clock: Clock, seed: int | None) -> None:
        self.config, self._clock, self._seed = config, clock, seed
        self.files = FaultyFiles()
        self.broker: Broker | None = None
        self._address = ""
        self.on_started: Callable[[BrokerPlace], object] | None = None

    @property
    def name(self) -> str:
        """The broker's name."""
        return self.config.broker_name

    @property
    def address(self) -> str:
        """Where clients find it, also while it does not run; empty before its first start."""
        return self._address

    async def start(self) -> Broker:
        """Starts it, unless it runs.

        Raises:
            CannotListenError, DirectoryInUseError: its port or its data directory is in use.
        """
        if self.broker is not None:
            return self.broker
        config = self.config
        broker = Broker(config, self._clock, files=self.files, seed=self._seed)
        await broker.__aenter__()
        self.broker, self._address = broker, broker.address
        port = int(broker.address.rpartition(":")[2])
        self.config = msgspec.structs.replace(config, listen_port=port)
        if self.on_started is not None:
            self.on_started(self)
        return broker

    async def advertise(self, rules: list[AdvertiseRule]) -> None:
        """Has clients told other addresses of it from now on, see docs/deploy.md."""
        self.config = msgspec.structs.replace(self.config, advertise=rules)
        if self.broker is not None:
            await self.broker.registration.advertise(self.config.advertise_text)

    async def kill(self) -> None:
        """Ends it as if its process was killed: all see broken connections, nobody is told."""
        broker, self.broker = self.broker, None
        if broker is not None:
            for connection in list(broker.server.connections):
                connection.abort("the broker was killed")
            await broker.registration.close()  # so that it cannot say goodbye
            await broker.close()

    async def stop(self) -> None:
        """Stops it as a TERM does, if it runs."""
        broker, self.broker = self.broker, None
        if broker is not None:
            await broker.close()


class Core:
    """``async with Core(settings) as core:`` starts the servers on entry and stops them on exit.

    Args:
        settings: what is wanted.

    Attributes:
        places: the brokers by name.
        travel: the clock that can be advanced; None with ``clock="system"``.
        client_clock: the clock that clients of this cluster should have.
        settling: knows when nothing moves.
        faults: once some were ordered.
    """

    def __init__(self, settings: ClusterSettings) -> None:
        self.settings = settings
        self.machine = WatchedClock()
        self.settling = Settling(self.machine)
        self.travel: TravelClock | None = None
        self.client_clock: Clock = SystemClock()
        if settings.clock != "system":
            is_running = settings.clock == "offset"
            start_ms = settings.start_ms
            self.travel = TravelClock(self.machine, is_running=is_running, start_ms=start_ms)
            self.client_clock = ClientClock(self.travel, self.settling.add_loop)
            self.settling.use(self.travel)
        self.places: dict[str, BrokerPlace] = {}
        self.faults: FaultTable | None = None
        self._stack = AsyncExitStack()

    @property
    def clock(self) -> Clock:
        """The brokers' time."""
        return self.travel or self.machine

    async def start(self) -> None:
        """Starts all servers; the topics and groups that were asked for are there then.

        Raises:
            CannotListenError, DirectoryInUseError: an address or the data directory is in use.
            ConfigError: the seed file is wrong.
        """
        async with AsyncExitStack() as stack:
            await self._start(stack)
            self._stack = stack.pop_all()

    async def _start(self, stack: AsyncExitStack) -> None:
        settings = self.settings
        if settings.data is None:
            self.directory = Path(tempfile.mkdtemp(prefix="pocketmq-"))
            stack.callback(shutil.rmtree, self.directory, ignore_errors=True)
        else:
            self.directory = Path(settings.data)
        if self.travel is not None:
            stack.callback(self.travel.close)
        self.name_server = NameServer(namesrv_config(settings), self.machine)
        await stack.enter_async_context(self.name_server)
        stack.push_async_callback(self._stop_brokers)
        for index in range(settings.brokers):
            directory = str(self.directory / broker_name(index))
            config = broker_config(settings, index, self.namesrv, directory)
            place = BrokerPlace(config, self.clock, settings.seed)
            self.places[place.name] = place
        await self._start_brokers()

    async def _start_brokers(self) -> None:
        starts = (place.start() for place in self.places.values())
        started = await asyncio.gather(*starts, return_exceptions=True)
        for one in started:  # none may be under way when the others are stopped
            if isinstance(one, BaseException):
                raise one
        topics, groups = self.settings.topic_configs(), self.settings.group_configs()
        if topics or groups:
            await self.put(topics, groups)
        if self.settings.seed_file is not None:
            await self.sow(self.settings.seed_file)

    async def sow(self, path: str, namespace: str = "") -> None:
        """Makes the cluster, or a namespace of it, what a seed file says.

        Raises:
            ConfigError: the file is wrong, or does not fit the cluster; names the place.
        """
        from pocketmq.client.copying.seeds import apply_seed, read_seed

        report = await apply_seed(read_seed(path), self.namesrv, namespace=namespace)
        for text in report.notes:
            log.warning("%s", text)

    async def _stop_brokers(self) -> None:
        await asyncio.gather(*(place.stop() for place in self.places.values()))

    async def stop(self) -> None:
        """Stops all servers and removes a temporary directory. Idempotent."""
        stack, self._stack = self._stack, AsyncExitStack()
        await stack.aclose()

    @property
    def namesrv(self) -> str:
        """Where the name server answers, ``host:port``."""
        return self.name_server.address

    def brokers(self) -> list[Broker]:
        """Those that run."""
        return [place.broker for place in self.places.values() if place.broker is not None]

    def place(self, name: str) -> BrokerPlace:
        """The broker of a name.

        Raises:
            UsageError: there is none.
        """
        try:
            return self.places[name]
        except KeyError:
            known = ", ".join(self.places)
            raise UsageError(f"no broker is called {name!r}; this cluster has {known}") from None

    async def advance(self, seconds: float) -> None:
        """Sets the clock forward; what is too old after that is removed as well.

        A segment goes when its successor is on the disk, and disks live in real time: retention
        is therefore run again, with nothing to wait for.
        """
        assert self.travel is not None
        await self.travel.advance(seconds)
        for broker in self.brokers():
            if seconds * 1000 < broker.config.clean_resource_interval:
                continue
            for _ in range(RETENTION_ROUNDS_MAX):
                await broker.store.checkpoint()
                if not await broker.retention.run():
                    break

    # -- topics and groups --------------------------------------------------------------------

    async def put(self, topics: list[TopicConfig], groups: list[GroupConfig]) -> None:
        """Makes or changes topics and groups on all brokers; the name server knows on return."""
        for broker in self.brokers():
            broker.topics.put(*topics)
            broker.groups.put(*groups)
            for group in groups:
                if group.retry_queue_nums > 0:
                    retry = names.retry_topic(group.group_name)
                    broker.topics.create_for_group(retry, group.retry_queue_nums)
        await self.register()

    async def register(self) -> None:
        """Has all brokers tell the name server what they have now."""
        await asyncio.gather(*(broker.registration.register() for broker in self.brokers()))

    def names(self) -> tuple[set[str], set[str]]:
        """The topics and the groups of all brokers."""
        topics = {topic.topic_name for broker in self.brokers() for topic in broker.topics}
        groups = {group.group_name for broker in self.brokers() for group in broker.groups}
        return topics, groups

    async def remove(self, topics: set[str], groups: set[str]) -> None:
        """Deletes topics with their messages, and groups with their offsets."""
        for broker in self.brokers():
            for topic in topics:
                broker.topics.remove(topic)
                broker.offsets.remove_topic(topic)
                broker.progress.remove_topic(topic)
                broker.polling.release_topic(topic)
                broker.store.delete_topic(topic)
            for group in groups:
                broker.groups.remove(group)
                broker.progress.remove_group(group)
                broker.offsets.remove_group(group)
        if topics:
            await self.register()

    def take_unused_faults(self) -> list[str]:
        """Faults that never fired since the last call; all faults are ended."""
        for place in self.places.values():
            place.files.is_full = False
        return [] if self.faults is None else self.faults.take_unused()

    async def heal(self) -> None:
        """Starts the brokers again that were killed."""
        for place in self.places.values():
            await place.start()

    def waiting(self) -> int:
        """Messages that wait for their time, and transactions that are open."""
        count = 0
        for broker in self.brokers():
            broker.transactions.grow()
            count += broker.schedule.waiting_count + broker.transactions.ledger.open_count()
        return count

    async def begin_anew(self) -> None:
        """Empties all brokers: they stop, lose their data, and are back at their addresses."""
        await self._stop_brokers()
        for place in self.places.values():
            shutil.rmtree(place.config.store_path_root_dir, ignore_errors=True)
        await self._start_brokers()
