"""The composition root of a broker: what there is, and the order in which it starts and stops."""

from __future__ import annotations

import asyncio
import logging
import random
import socket
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType

import msgspec

from pocketmq.broker.appending.real_targets import RealTargets
from pocketmq.broker.appending.write_backlog import BacklogSettings, WriteBacklog
from pocketmq.broker.config.config import BrokerConfig
from pocketmq.broker.config.delay_levels import parse_delay_levels
from pocketmq.broker.config.live_settings import LiveSettings
from pocketmq.broker.delay.schedule import Schedule
from pocketmq.broker.delay.timers import TimerSettings
from pocketmq.broker.groups.clients import (
    ConsumerGroup,
    ConsumerTable,
    ProducerTable,
    expired_connections,
)
from pocketmq.broker.groups.groups import GroupTable
from pocketmq.broker.groups.offsets import ConsumerOffsets
from pocketmq.broker.groups.order_locks import OrderLocks
from pocketmq.broker.handlers.table import handler_table
from pocketmq.broker.reading.long_polling import LongPolling
from pocketmq.broker.reading.pull_progress import PullProgress
from pocketmq.broker.registration.registration import Registration
from pocketmq.broker.registration.vip_channel import listen_for_vips
from pocketmq.broker.statistics.pressure import Pressure
from pocketmq.broker.statistics.statistics import SAMPLE_PERIOD_S, Statistics
from pocketmq.broker.store.disk.errors import FormatError
from pocketmq.broker.store.disk.files import Files
from pocketmq.broker.store.keys.key_index import KeyIndex
from pocketmq.broker.store.log.queue_log import QueueLog
from pocketmq.broker.store.metadata.owner import Owner, claim
from pocketmq.broker.store.retention import Retention
from pocketmq.broker.store.store import MessageStore, StoreSettings
from pocketmq.broker.topics.topics import TopicTable, system_topics
from pocketmq.broker.transactions.check_back import CheckBack, CheckSettings
from pocketmq.broker.transactions.transactions import Transactions
from pocketmq.protocol.messages.hosts import encode_host, join_address
from pocketmq.protocol.names import names
from pocketmq.protocol.requests.clients import ConsumerIdsChangedRequest
from pocketmq.protocol.wire.command import Command
from pocketmq.runtime.clock import Clock, SystemClock
from pocketmq.runtime.loop_watch import LoopWatch
from pocketmq.runtime.open_files import room_for_connections
from pocketmq.runtime.tasks import Action, Tasks, repeat
from pocketmq.transport.connection import Connection, Handler
from pocketmq.transport.errors import CannotListenError
from pocketmq.transport.frame_budget import FrameBudget
from pocketmq.transport.limits import Limits
from pocketmq.transport.server import Server
from pocketmq.transport.slow_readers import SlowReaders

log = logging.getLogger("pocketmq.broker")

CLIENT_SCAN_PERIOD_S = 10.0
LOCK_SCAN_PERIOD_S = 60.0
KEY_INDEX_PERIOD_S = 1.0
IDLE_LOG_PERIOD_S = 60.0
_ANY_ADDRESS = ("0.0.0.0", "::", "")  # noqa: S104


class Broker:
    """A broker: ``async with Broker(config) as broker:`` binds, recovers and registers.

    Args:
        config: its settings; `config` has those in force, see `LiveSettings`.
        clock: its time.
        files: its disk; tests give one that fails.
        seed: of its choices, such as the queue for a message that names none.

    Attributes:
        address: what clients are told, ``host:port``.
        vip_port: where it listens besides; None without a VIP channel.
        handlers: what it answers, by request code.
        server: its sockets and connections.

    Raises:
        DirectoryInUseError, DirectoryError, FormatError, OwnerError: on entry, see `store.errors`.
        OSError: on entry, the address is in use.
    """

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock | None = None,
        *,
        files: Files | None = None,
        seed: int | None = None,
    ) -> None:
        self.config = config
        self.clock: Clock = clock or SystemClock()
        self.address = ""
        self.vip_port: int | None = None
        self._files, self._chance = files, random.Random(seed)
        self._stack = AsyncExitStack()
        self._changed_groups: dict[str, None] = {}
        self._connections = set[Connection]()

    async def __aenter__(self) -> Broker:
        async with AsyncExitStack() as stack:
            try:
                await self._start(stack)
            except msgspec.DecodeError as e:
                path = Path(self.config.store_path_root_dir) / "meta.db"
                raise FormatError(
                    path,
                    f"a value in it cannot be read ({e}): restore it from a copy, or run "
                    f"`pocketmq store repair {path.parent}`",
                ) from e
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Unregisters, answers what was accepted, and closes the store cleanly. Idempotent."""
        stack, self._stack = self._stack, AsyncExitStack()
        await stack.aclose()

    async def _start(self, stack: AsyncExitStack) -> None:
        self._open_store(stack)
        self._open_tables(stack)
        await self._open_deliveries(stack)
        self._follow_the_store(stack)
        store_host = await self._listen(stack)

        tasks = Tasks()
        stack.push_async_callback(tasks.close)
        self.registration = Registration(
            self.settings, self.address, self.topics, self.clock.machine
        )
        stack.push_async_callback(self.registration.close)
        stack.push_async_callback(self.registration.unregister)
        await self._run(tasks, store_host)
        log.info(
            "%s serves %s from %s", self.config.broker_name, self.address, self.store.directory
        )

    def _open_store(self, stack: AsyncExitStack) -> None:
        """Recovers what was stored, and the settings that were changed while it ran."""
        config = self.config
        self.store = store = MessageStore(
            Path(config.store_path_root_dir),
            StoreSettings.of(config),
            self.clock,
            self._files,
            self._connections,
        )
        stack.push_async_callback(store.close)
        own = Owner(config.broker_cluster_name, config.broker_name, config.broker_id)
        claim(store.directory, store.metadata, own)
        self.settings = LiveSettings(config, store.metadata, self.clock)
        self.config = self.settings.now
        store_settings = self.settings.view(StoreSettings.of)
        store.use(store_settings.now)
        store_settings.follow(store.use)

    def _open_tables(self, stack: AsyncExitStack) -> None:
        """Topics, groups, clients, and how far they are."""
        clock, metadata = self.clock, self.store.metadata
        self.topics = TopicTable(metadata, clock)
        self.groups = GroupTable(
            metadata, clock, self.settings.view(lambda c: c.auto_create_subscription_group)
        )
        self.offsets = ConsumerOffsets(metadata)
        if not self.store.was_clean:
            self.offsets.bring_back(self.store.end_offset)
        stack.callback(self.offsets.save)
        self.order_locks = OrderLocks(metadata, clock)
        self.progress = PullProgress(clock)
        self.producers = ProducerTable()
        self.consumers = ConsumerTable(self._members_changed)

    async def _open_deliveries(self, stack: AsyncExitStack) -> None:
        """What is stored now and delivered later: delays, timers, transactions."""
        settings, store, topics, groups = self.settings, self.store, self.topics, self.groups
        levels = settings.view(lambda config: parse_delay_levels(config.message_delay_level))
        self.schedule = Schedule(
            levels, store, topics, groups, settings.view(TimerSettings.of), self._chance
        )
        stack.push_async_callback(self.schedule.close)
        self.transactions = Transactions(store, RealTargets(store, topics, groups))
        await self.transactions.open()
        stack.push_async_callback(self.transactions.close)

    def _follow_the_store(self, stack: AsyncExitStack) -> None:
        """What looks at every message that comes or goes, and at how hard that is."""
        config, clock, store = self.config, self.clock, self.store
        self.retention = Retention(
            store, self.settings.view(lambda c: c.reserved_ms), self._still_needs
        )
        self.statistics = Statistics(
            config.broker_cluster_name, store, self.progress,
            self.schedule.timers.delivery.delivered, clock,
        )  # fmt: skip
        self.polling = LongPolling(clock.machine, config.max_held_pulls)
        store.committer.appended.add(self.polling.arrived)
        self.backlog = WriteBacklog(store, self.settings.view(BacklogSettings.of))
        self.pressure = Pressure(
            LoopWatch(clock.machine),
            FrameBudget(clock.machine, config.unread_size_max),
            SlowReaders(clock.machine, config.unsent_size_max, config.slow_reader_timeout / 1000),
            self.backlog,
        )
        stack.callback(self.pressure.watch.close)
        self.keys = KeyIndex(store)
        store.checkpointed.add(self.keys.want)

    async def _listen(self, stack: AsyncExitStack) -> bytes:
        """Takes connections and answers them; returns the host that stored messages name."""
        config, store, pressure = self.config, self.store, self.pressure
        self.handlers: dict[int, Handler] = {}
        self.server = server = Server(
            self.clock,
            self.handlers,
            limits=Limits(
                idle_timeout_s=config.connection_idle_timeout / 1000,
                write_buffer_max=config.write_buffer_max,
            ),
            on_close=self._disconnected,
            connections_max=room_for_connections(config.connections_max, config.open_files_max),
            read_events=store.committer,
            watch=pressure.watch,
            budget=pressure.budget,
            slow_readers=pressure.slow_readers,
            connections=self._connections,
        )
        # From here to the table of handlers nothing waits: whoever connects finds all of them.
        host, port = config.bind_address, config.listen_port
        try:
            await server.listen(host, port)
        except OSError as e:
            raise CannotListenError(config.broker_name, host, port, e) from e
        stack.push_async_callback(server.close)
        stack.push_async_callback(store.drain)
        stack.callback(self.polling.release_all)
        self.address = join_address(self._advertised_host(), server.port)
        self._create_system_topics()
        self.settings.follow(self._follow)
        self._restore_topics()
        self.schedule.start()
        store_host = encode_host(self._advertised_host(), server.port)
        self.handlers.update(handler_table(self, store_host, self._chance))
        self.vip_port = await listen_for_vips(server, config)
        return store_host

    async def _run(self, tasks: Tasks, store_host: bytes) -> None:
        """Registers, and starts what happens by itself from now on."""
        config, clock, registration = self.config, self.clock, self.registration
        checks = CheckBack(
            self.transactions, self.producers, self.store, self.topics,
            self.settings.view(CheckSettings.of), store_host,
        )  # fmt: skip
        permission = self.settings.view(lambda config: config.broker_permission)
        permission.follow(lambda _: self.topics.renew_version())
        if registration.servers:
            await registration.register()
            self.topics.changed.add(registration.want)
            tasks.spawn(registration.run_wanted(), "register-wanted")
        self.store.remove_deleted()
        housekeeping: tuple[tuple[str, Callable[[BrokerConfig], float], Action], ...] = (
            ("register", lambda c: c.register_name_server_period, registration.register_if_changed),
            ("checkpoint", lambda c: c.flush_interval_commit_log, self.store.checkpoint),
            ("offsets", lambda c: c.flush_consumer_offset_interval, self._save_offsets),
            ("delays", lambda c: c.flush_delay_offset_interval, self.schedule.save),
            ("transactions", lambda c: c.flush_delay_offset_interval, self.transactions.save),
            ("keys", lambda _: KEY_INDEX_PERIOD_S * 1000, self.keys.run),
            ("idle logs", lambda _: IDLE_LOG_PERIOD_S * 1000, self.store.close_idle_logs),
            ("statistics", lambda _: SAMPLE_PERIOD_S * 1000, self.statistics.sample),
            ("clients", lambda _: CLIENT_SCAN_PERIOD_S * 1000, self._expire_clients),
            ("order locks", lambda _: LOCK_SCAN_PERIOD_S * 1000, self.order_locks.expire),
        )
        of_messages: tuple[tuple[str, Callable[[BrokerConfig], float], Action], ...] = (
            ("retention", lambda c: c.clean_resource_interval, self.retention.run),
        )
        if not config.broker_id:
            checking = ("checks", lambda c: c.transaction_check_interval, checks.run)
            of_messages = (checking, *of_messages)
        for time, rounds in ((clock, of_messages), (clock.machine, housekeeping)):
            for name, period_ms, action in rounds:
                watched = self.pressure.watch.watched(name, action)
                tasks.spawn(repeat(time, self._in_seconds(period_ms), watched), name)

    def _in_seconds(self, period_ms: Callable[[BrokerConfig], float]) -> Callable[[], float]:
        return lambda: period_ms(self.config) / 1000

    async def _save_offsets(self) -> None:
        await self.offsets.save_by_turns(self.clock)

    def _still_needs(self, queue_log: QueueLog) -> bool:
        return self.schedule.still_needs(queue_log) or self.transactions.still_needs(queue_log)

    def _advertised_host(self) -> str:
        if self.config.broker_ip1:
            return self.config.broker_ip1
        if self.config.bind_address not in _ANY_ADDRESS:
            return self.config.bind_address
        return _own_address()

    def _create_system_topics(self) -> None:
        config = self.config
        self.topics.put(
            *(
                topic
                for topic in system_topics(
                    config.broker_cluster_name,
                    config.broker_name,
                    auto_create=config.auto_create_topic_enable,
                    default_queue_nums=config.default_topic_queue_nums,
                    trace_topic=config.msg_trace_topic_name if config.trace_topic_enable else "",
                )
                # the model of new topics follows the settings, the others are as they were made
                if topic.topic_name not in self.topics
                or topic.topic_name == names.AUTO_CREATE_TOPIC
            )
        )
        if not config.auto_create_topic_enable:
            self.topics.remove(names.AUTO_CREATE_TOPIC)

    def _restore_topics(self) -> None:
        """Topics whose messages were found again after the metadata was lost."""
        nums_min = self.config.default_topic_queue_nums
        for name in sorted(self.store.orphan_logs.topics):
            nums = max(self.store.queue_ids(name), default=-1) + 1
            topic = self.topics.get(name)
            if topic is None:
                nums = max(nums_min, nums)
                log.warning("topic %s is made again with %d queues", name, nums)
                self.topics.create_for_group(name, nums)
            elif nums > topic.read_queue_nums:
                log.warning("topic %s has %d queues again", name, nums)
                write_nums = max(nums, topic.write_queue_nums)
                self.topics.put(
                    msgspec.structs.replace(
                        topic, read_queue_nums=nums, write_queue_nums=write_nums
                    )
                )
        self.store.orphan_logs.forget()

    def _follow(self, config: BrokerConfig) -> None:
        """Takes over changed settings; handlers and periodic tasks do so by themselves."""
        self.config = config
        self._create_system_topics()

    # -- clients ------------------------------------------------------------------------------

    def _members_changed(self, name: str, _: ConsumerGroup) -> None:
        """Has a group's members told at the end of this turn of the loop.

        Once, however many of them came or went: when a thousand connections break together, each
        of the others would be told a thousand times.
        """
        if not self.config.notify_consumer_ids_changed_enable:
            return
        if not self._changed_groups:
            asyncio.get_running_loop().call_soon(self._tell_members)
        self._changed_groups[name] = None

    def _tell_members(self) -> None:
        names, self._changed_groups = self._changed_groups, {}
        for name in names:
            config, group = self.groups.get(name), self.consumers.get(name)
            if group is None or (
                config is not None and not config.notify_consumer_ids_changed_enable
            ):
                continue
            request = ConsumerIdsChangedRequest(consumer_group=name)
            for connection in list(group.members):
                connection.notify(Command(request.code, header=request))

    def _disconnected(self, connection: Connection) -> None:
        self.polling.forget(connection)
        self.producers.leave_all(connection)
        self.consumers.leave_all(connection)

    def _expire_clients(self) -> None:
        expired_s = self.config.channel_expired_timeout / 1000
        for connection in expired_connections(
            self.clock.machine, expired_s, self.producers, self.consumers
        ):
            log.info("forgetting %s: no heartbeat in %g s", connection.remote_address, expired_s)
            connection.close("no heartbeat")


def _own_address() -> str:
    """This machine's address as its own name resolves; loopback when it does not."""
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return "127.0.0.1"
