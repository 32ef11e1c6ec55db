"""Runs the name server, the brokers and the clock of a cluster in one event loop.

Everything here runs on the cluster's own loop; tests use `pocketmq.testing.cluster`.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import tempfile
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path

from pocketmq.broker import Broker
from pocketmq.client.tls import use_tls
from pocketmq.namesrv import NameServer
from pocketmq.protocol.bodies.clients import GroupConfig
from pocketmq.protocol.bodies.topics import TopicConfig
from pocketmq.protocol.errors import UsageError
from pocketmq.protocol.names import names
from pocketmq.runtime.clock import Clock, SystemClock
from pocketmq.runtime.tasks import all_ended
from pocketmq.testing.brokers.broker_sets import BrokerSets
from pocketmq.testing.brokers.broker_slot import BrokerSlot
from pocketmq.testing.brokers.links import ARBITER, Link, Links
from pocketmq.testing.injection.table import RuleTable
from pocketmq.testing.settings import (
    ClusterSettings,
    broker_config,
    broker_name,
    namesrv_config,
)
from pocketmq.testing.travel.settling import Settling
from pocketmq.testing.travel.travel_clock import ClientClock, TravelClock, WatchedClock
from pocketmq.transport.tls.cluster_certificates import ClusterCertificates

log = logging.getLogger("pocketmq.testing")

RETENTION_ROUNDS_MAX = 100
"""Rounds of retention after a jump; each removes a bounded number of segments."""


class Core:
    """``async with Core(settings) as core:`` starts the servers on entry and stops them on exit.

    Args:
        settings: the options of the cluster.

    Attributes:
        slots: the brokers by name, members of broker sets as ``broker-a/1``.
        sets: the broker sets.
        links: between the members of broker sets, and to the arbiter.
        travel: the clock that can be advanced; None with ``clock="system"``.
        client_clock: the clock that clients of this cluster should have.
        settling: waits until nothing moves.
        faults: the faults that are ordered.
        certificates: those with which the servers speak TLS; None without TLS.
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
            self.travel = TravelClock(
                self.machine,
                is_running=is_running,
                start_ms=start_ms,
                settle=self.settling.wait,
            )
            self.client_clock = ClientClock(self.travel, self.settling.add_loop)
            self.settling.watch(self.travel)
        self.slots: dict[str, BrokerSlot] = {}
        self.links = Links(self.machine, self._place_of)
        self.faults = RuleTable(self.clock)
        self.certificates: ClusterCertificates | None = None
        self._stack = AsyncExitStack()

    @property
    def clock(self) -> Clock:
        """The clock of the brokers."""
        return self.travel or self.machine

    async def start(self) -> None:
        """Starts all servers and makes the topics and groups of the settings.

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
        if settings.tls:
            self.certificates = ClusterCertificates(self.directory / "tls", self.machine)
        path = str(self.directory / "namesrv" / "arbiter.db") if settings.replicas > 1 else None
        config = namesrv_config(settings, self.certificates, path)
        self.name_server = NameServer(config, self.machine)
        await stack.enter_async_context(self.name_server)
        self.faults.attach_name_server(self.name_server, self.slot_name_of)
        stack.push_async_callback(self.links.close)
        stack.push_async_callback(self._stop_brokers)
        self.sets = BrokerSets(self.slots, self.name_server, self.machine)
        for index in range(settings.brokers):
            for number in range(settings.replicas):
                slot = self._slot(index, number)
                self.slots[slot.name] = slot
        await self._start_brokers()

    def _slot(self, index: int, number: int) -> BrokerSlot:
        """Makes the place of a broker, or of a member of its set, counted from 0."""
        settings = self.settings
        name = broker_name(index) + (f"-{number + 1}" if number else "")
        directory = str(self.directory / name)
        own = broker_config(settings, index, self.namesrv, directory, self.certificates, number)
        links = self.links if settings.replicas > 1 else None
        return BrokerSlot(own, self.clock, settings.seed, self.faults.attach, links)

    def slot_name_of(self, address: str) -> str | None:
        """Returns the name of the broker with an address; None if there is none."""
        found = (slot.name for slot in self.slots.values() if slot.address == address)
        return next(found, None)

    def _place_of(self, address: str) -> str | None:
        return ARBITER if address == self.namesrv else self.slot_name_of(address)

    def links_of(self, slot: BrokerSlot, other: str | None = None) -> list[Link]:
        """Returns the links of a member to another one; or to all, and to the arbiter.

        Raises:
            UsageError: these have no link.
        """
        others = [o.name for o in self.sets.members(slot.set_name) if o is not slot]
        if other is None:
            return [self.links.between(slot.name, name) for name in (*others, ARBITER)]
        if other not in others:
            known = ", ".join(others) or "nobody: start the cluster with replicas=2 or more"
            raise UsageError(f"{slot.name} has no link to {other!r}; it replicates with {known}")
        return [self.links.between(slot.name, other)]

    async def _start_brokers(self) -> None:
        if self.settings.replicas > 1:
            await self.sets.start()
        else:
            await all_ended(*(slot.start() for slot in self.slots.values()))
        topics, groups = self.settings.topic_configs(), self.settings.group_configs()
        if topics or groups:
            await self.put(topics, groups)
        if self.settings.seed_file is not None:
            await self.sow(self.settings.seed_file)

    async def sow(self, path: str, namespace: str = "") -> None:
        """Applies a seed file to the cluster, or to a namespace of it.

        Raises:
            ConfigError: the file is wrong or does not fit the cluster; names the place in the file.
        """
        from pocketmq.client.copying.seeds import apply_seed, read_seed

        if self.certificates is not None:
            use_tls(self.certificates.client)
        report = await apply_seed(read_seed(path), self.namesrv, namespace=namespace)
        for text in report.notes:
            log.warning("%s", text)

    async def _stop_brokers(self) -> None:
        await asyncio.gather(*(slot.close() for slot in self.slots.values()))

    async def with_it(self, server: AbstractAsyncContextManager[object]) -> None:
        """Starts a server that ends when the cluster does, before all others."""
        await self._stack.enter_async_context(server)

    async def stop(self) -> None:
        """Stops all servers and removes a temporary directory. Idempotent."""
        stack, self._stack = self._stack, AsyncExitStack()
        await stack.aclose()

    @property
    def namesrv(self) -> str:
        """The address of the name server, ``host:port``."""
        return self.name_server.address

    @property
    def local_offsets_dir(self) -> Path:
        """The folder in which broadcasting members keep their offsets."""
        return self.directory / "offsets"

    def remove_local_offsets(self, namespace: str = "") -> None:
        """Removes the offsets of broadcasting members: of all, or of one namespace."""
        shutil.rmtree(self.local_offsets_dir / namespace, ignore_errors=True)

    def brokers(self) -> list[Broker]:
        """Returns the brokers that answer clients: of each broker set the leader."""
        slots = self.slots.values()
        return [slot.broker for slot in slots if slot.broker is not None and slot.is_serving]

    def slot(self, name: str) -> BrokerSlot:
        """Returns the slot of a broker by its name; by that of a broker set, of the leader.

        Raises:
            UsageError: no broker has this name, or the set has no leader at this moment.
        """
        slot = self.slots.get(name)
        if slot is not None:
            return slot
        if self.sets.members(name):
            return self.sets.leader(name)
        known = ", ".join(self.slots)
        raise UsageError(f"no broker is called {name!r}; this cluster has {known}")

    def check_broker(self, name: str) -> None:
        """Refuses a name that is neither a broker's nor a broker set's.

        Raises:
            UsageError: nothing has this name.
        """
        if not self.sets.members(name):
            self.slot(name)

    async def advance(self, seconds: float) -> None:
        """Sets the clock forward, then runs retention until nothing is left to remove.

        Retention removes a segment once its successor is on the disk, and disks live in real
        time: therefore retention runs again after a checkpoint instead of waiting.
        """
        assert self.travel is not None
        await self.travel.advance(seconds)
        for broker in self.brokers():
            if seconds * 1000 < broker.config.clean_resource_interval:
                continue
            for _ in range(RETENTION_ROUNDS_MAX):
                await broker.store.checkpoint()
                if not await broker.parts.retention.run():
                    break

    # -- topics and groups --------------------------------------------------------------------

    async def put(self, topics: list[TopicConfig], groups: list[GroupConfig]) -> None:
        """Makes or changes topics and groups on all brokers, and registers them."""
        for broker in self.brokers():
            broker.topics.put(*topics)
            broker.groups.put(*groups)
            for group in groups:
                if group.retry_queue_nums > 0:
                    retry = names.retry_topic(group.group_name)
                    broker.topics.create_for_group(retry, group.retry_queue_nums)
        await self.register()

    async def register(self) -> None:
        """Registers all brokers with the name server."""
        await asyncio.gather(*(broker.registration.register() for broker in self.brokers()))

    def names(self) -> tuple[set[str], set[str]]:
        """Returns the names of the topics and of the groups of all brokers."""
        topics = {topic.topic_name for broker in self.brokers() for topic in broker.topics}
        groups = {group.group_name for broker in self.brokers() for group in broker.groups}
        return topics, groups

    async def remove(self, topics: set[str], groups: set[str]) -> None:
        """Deletes topics with their messages, and groups with their offsets."""
        for broker in self.brokers():
            for topic in topics:
                broker.topics.remove(topic)
                broker.offsets.remove_topic(topic)
                broker.parts.progress.remove_topic(topic)
                broker.parts.polling.release_topic(topic)
                broker.store.delete_topic(topic)
            broker.groups.remove(*groups)
            broker.parts.progress.remove_groups(groups)
            for group in groups:
                broker.offsets.remove_group(group)
        if topics:
            await self.register()

    def take_unused_faults(self) -> list[str]:
        """Ends all rules of faults, and full disks, before a stop; returns texts as `end_all`."""
        for slot in self.slots.values():
            slot.files.fillings = 0
        return self.faults.take_unused()

    def waiting(self) -> int:
        """Counts the messages that wait for their time and the open transactions."""
        count = 0
        for broker in self.brokers():
            broker.parts.transactions.grow()
            count += (
                broker.parts.schedule.waiting_count
                + broker.parts.transactions.half_states.open_count()
            )
        return count

    def stored_count(self) -> int:
        """Counts the messages that the running brokers have stored since their starts."""
        return sum(broker.store.counters.total.messages for broker in self.brokers())

    async def begin_anew(self) -> None:
        """Empties all brokers: stops them, removes their data, starts them at their addresses."""
        await self._stop_brokers()
        if self.name_server.arbiter is not None:
            self.name_server.arbiter.clear()
        for slot in self.slots.values():
            shutil.rmtree(slot.config.store_path_root_dir, ignore_errors=True)
        self.remove_local_offsets()
        await self._start_brokers()
