"""The parts of a broker, and how they are built from its settings and its data directory."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from contextlib import AsyncExitStack

import msgspec

from pocketmq.auth.directory import UserDirectory
from pocketmq.auth.rates import RateLimits, Rates
from pocketmq.auth.stored import StoredUsers, secret_box
from pocketmq.broker.appending.appender import Appender
from pocketmq.broker.appending.real_targets import RealTargets
from pocketmq.broker.appending.write_backlog import BacklogSettings, WriteBacklog
from pocketmq.broker.config.config import BrokerConfig
from pocketmq.broker.config.delay_levels import parse_delay_levels
from pocketmq.broker.config.live_settings import LiveSettings
from pocketmq.broker.delay.schedule import Schedule
from pocketmq.broker.delay.timers import TimerSettings
from pocketmq.broker.groups.groups import GroupTable
from pocketmq.broker.groups.membership import Membership, MembershipSettings
from pocketmq.broker.groups.offsets import ConsumerOffsets
from pocketmq.broker.groups.order_locks import LockLimits, OrderLocks
from pocketmq.broker.groups.request_modes import RequestModes
from pocketmq.broker.name_limits import NameLimits
from pocketmq.broker.popping.popping import Popping
from pocketmq.broker.popping.waiting import PopWaiting
from pocketmq.broker.reading.catch_up_share import CatchUpShare
from pocketmq.broker.reading.long_polling import LongPolling
from pocketmq.broker.reading.pull_progress import PullProgress
from pocketmq.broker.statistics.back_pressure import BackPressure
from pocketmq.broker.statistics.disk_forecast import DiskForecast
from pocketmq.broker.statistics.statistics import Statistics
from pocketmq.broker.store.disk.errors import WriteFailedError
from pocketmq.broker.store.keys.key_index import KeyIndex
from pocketmq.broker.store.log.queue_log import QueueLog
from pocketmq.broker.store.metadata.owner import Owner, claim
from pocketmq.broker.store.retention import Retention
from pocketmq.broker.store.settings import StoreSettings
from pocketmq.broker.store.store import MessageStore
from pocketmq.broker.topics.kept_topics import KeptTopics, kept_of
from pocketmq.broker.topics.topics import TopicTable
from pocketmq.broker.transactions.transactions import Transactions
from pocketmq.broker.work_share import WorkShare
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.loop_watch import LoopWatch
from pocketmq.runtime.private_files import make_private
from pocketmq.transport.frame_budget import FrameBudget
from pocketmq.transport.slow_readers import SlowReaders

log = logging.getLogger("pocketmq.broker")


class BrokerState(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The parts of a broker that read its data directory and write to it.

    Attributes:
        store: the messages, and the metadata of everything else.
        appender: the way into the store's logs.
        settings: the configuration, with the changes made at run time.
        topics, groups: what is known of each topic and consumer group.
        offsets: how far each group has consumed.
        order_locks: which member consumes which queue in order.
        request_modes: which groups consume which topics by pops.
        users: who may ask, and for what.
    """

    store: MessageStore
    appender: Appender
    settings: LiveSettings
    topics: TopicTable
    groups: GroupTable
    offsets: ConsumerOffsets
    order_locks: OrderLocks
    request_modes: RequestModes
    users: UserDirectory


class BrokerParts(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The parts of a broker that handlers and periodic tasks work with.

    Attributes:
        clock, random: of the broker.
        data: what its data directory holds.
        members: the living producers and consumers.
        progress: how far each group has pulled.
        polling: the pulls that wait for a message.
        popping: the messages that were popped and not acknowledged.
        waiting: the pops that wait for a message.
        work_share: bounds costly reads in a turn of the loop.
        catch_up: bounds the time that groups far behind take from senders.
        schedule: delayed messages and timers.
        transactions: the open half messages.
        retention: removes old messages.
        keys: finds messages by key.
        statistics: what was sent and consumed.
        disk_forecast: when the disk will be full.
        back_pressure: what holds up clients that ask for too much.
        rate_limits: what an address, a client and a user may ask for in a second.
    """

    clock: Clock
    random: random.Random
    data: BrokerState
    members: Membership
    progress: PullProgress
    polling: LongPolling
    popping: Popping
    waiting: PopWaiting
    work_share: WorkShare
    catch_up: CatchUpShare
    schedule: Schedule
    transactions: Transactions
    retention: Retention
    keys: KeyIndex
    statistics: Statistics
    disk_forecast: DiskForecast
    back_pressure: BackPressure
    rate_limits: RateLimits


def claim_directory(store: MessageStore, config: BrokerConfig) -> None:
    """Enters a broker as the owner of its data directory.

    Raises:
        OwnerError: the directory is another broker's.
    """
    owner = Owner(config.broker_cluster_name, config.broker_name, config.broker_id)
    claim(store.directory, store.metadata, owner)


def load_data(
    store: MessageStore,
    config: BrokerConfig,
    clock: Clock,
    stack: AsyncExitStack,
    *,
    is_new_leader: bool = False,
    appender: Appender | None = None,
) -> BrokerState:
    """Loads what the data directory of an open store holds besides messages.

    Args:
        store: of the broker.
        config: what the configuration says; the store takes what was changed at run time.
        clock: of the broker.
        stack: saves the offsets at the end.
        is_new_leader: whether another member of a broker set has led before.
        appender: the way into the store's logs; None for one that counts nothing.

    Raises:
        ConfigError: passwords of users cannot be decrypted.
    """
    metadata = store.metadata
    settings = LiveSettings(config, metadata, clock)
    store_settings = settings.view(StoreSettings.of)
    store.use(store_settings.now)
    store_settings.follow(store.use)
    limits = settings.view(NameLimits.of)
    data = BrokerState(
        store=store,
        appender=appender or Appender(store),
        settings=settings,
        topics=TopicTable(metadata, clock, limits),
        groups=GroupTable(
            metadata,
            clock,
            settings.view(lambda config: config.auto_create_subscription_group),
            limits,
        ),
        offsets=ConsumerOffsets(metadata),
        order_locks=OrderLocks(
            metadata, clock, LockLimits(config.max_order_locks, config.max_order_locks_of_group)
        ),
        request_modes=RequestModes(metadata),
        users=load_users(store, config),
    )
    if is_new_leader or not store.was_clean:
        data.offsets.bring_back(store.end_offset, store.logs.least_end_offset)
    stack.callback(_save_at_the_end, "consumer offsets", data.offsets.save)
    stack.callback(_save_at_the_end, "topics", data.topics.save)
    stack.callback(_save_at_the_end, "groups", data.groups.save)
    return data


def load_users(store: MessageStore, config: BrokerConfig) -> UserDirectory:
    """The stored users; none are looked at where nobody is asked who they are.

    Raises:
        ConfigError: passwords cannot be decrypted.
    """
    if not config.authentication_enabled:
        return UserDirectory()
    box = secret_box(config.secrets_key_path)
    if box is None:
        make_private(store.metadata.paths)
        log.warning(
            "passwords of users are kept as they are in %s, which only this user of the machine "
            "may read; with secretsKeyPath they are encrypted",
            store.directory,
        )
    return UserDirectory(StoredUsers(store.metadata, box))


def _save_at_the_end(name: str, save: Callable[[], object]) -> None:
    try:
        save()
    except WriteFailedError as e:
        log.error("the last changes of the %s are lost: %s", name, e)


def back_pressure_of(store: MessageStore, settings: LiveSettings, clock: Clock) -> BackPressure:
    """Builds what holds up clients that ask for too much; its watch is to be closed."""
    config, machine = settings.now, clock.machine
    return BackPressure(
        LoopWatch(machine),
        FrameBudget(machine, config.unread_size_max),
        SlowReaders(machine, config.unsent_size_max, config.slow_reader_timeout / 1000),
        WriteBacklog(store.committer, store.flusher, settings.view(BacklogSettings.of)),
    )


async def build_parts(
    data: BrokerState, clock: Clock, rng: random.Random, stack: AsyncExitStack
) -> BrokerParts:
    """Builds the other parts upon the data; nothing is delivered before `Schedule.start`.

    Args:
        data: of the broker.
        clock: its time.
        rng: makes its random choices.
        stack: closes what is opened here.
    """
    store, settings, topics, groups = data.store, data.settings, data.topics, data.groups
    config, machine = settings.now, clock.machine
    metadata, targets = store.metadata, RealTargets(store, store.metadata_gaps, topics, groups)
    levels = settings.view(lambda config: parse_delay_levels(config.message_delay_level))
    schedule = Schedule(
        levels, store, metadata, clock, data.appender, targets, settings.view(TimerSettings.of), rng
    )
    stack.push_async_callback(schedule.close)
    transactions = Transactions(store, metadata, clock, data.appender, targets)
    await transactions.open()
    stack.push_async_callback(transactions.close)
    popping = Popping(store, clock, data.appender, topics, groups, data.offsets)
    popping.open()
    stack.callback(popping.close)

    def still_needs(queue_log: QueueLog) -> bool:
        return (
            schedule.still_needs(queue_log)
            or transactions.still_needs(queue_log)
            or popping.still_needs(queue_log)
        )

    progress, work_share = PullProgress(clock), WorkShare()
    reserved_ms = settings.view(lambda c: c.reserved_ms)
    parts = BrokerParts(
        clock=clock,
        random=rng,
        data=data,
        members=Membership(groups, clock, settings.view(MembershipSettings.of)),
        progress=progress,
        polling=LongPolling(
            machine, config.max_held_pulls, work_share, config.max_held_pulls_of_connection
        ),
        popping=popping,
        waiting=PopWaiting.of(
            clock,
            config.max_pop_polling_size,
            config.max_held_pulls_of_connection,
            settings.view(lambda c: c.pop_polling_size),
            work_share,
        ),
        work_share=work_share,
        catch_up=CatchUpShare(machine, store.counters.total, work_share),
        schedule=schedule,
        transactions=transactions,
        retention=Retention(store, reserved_ms, still_needs, KeptTopics(topics).now),
        keys=KeyIndex(store),
        statistics=Statistics(
            config.broker_cluster_name,
            store.counters,
            store.logs,
            progress,
            schedule.timers.delivery.delivered,
            popping.traffic,
            clock,
        ),
        disk_forecast=DiskForecast(
            store.disk,
            store.counters,
            store.logs,
            reserved_ms,
            lambda name: kept_of(topics.get(name)),
            clock,
        ),
        back_pressure=back_pressure_of(store, settings, clock),
        rate_limits=RateLimits(Rates.of(config), clock),
    )
    stack.callback(parts.back_pressure.watch.close)
    stack.callback(parts.catch_up.close)
    store.committer.appended.add(parts.polling.arrived)
    store.committer.appended.add(parts.waiting.arrived)
    stack.callback(parts.waiting.close)
    store.checkpointed.add(parts.keys.want)
    return parts
