"""The parts with which a follower serves reads."""

from __future__ import annotations

from contextlib import AsyncExitStack

import msgspec

from pocketmq.auth.rates import RateLimits, Rates
from pocketmq.broker.config.config import BrokerConfig
from pocketmq.broker.counters.traffic import Traffic
from pocketmq.broker.groups.membership import Membership, MembershipSettings
from pocketmq.broker.parts import back_pressure_of
from pocketmq.broker.popping.pop_traffic import PopTraffic
from pocketmq.broker.reading.catch_up_share import CatchUpShare
from pocketmq.broker.reading.long_polling import LongPolling
from pocketmq.broker.reading.pull_progress import PullProgress
from pocketmq.broker.replica.data import ReplicaData
from pocketmq.broker.statistics.back_pressure import BackPressure
from pocketmq.broker.statistics.disk_forecast import DiskForecast
from pocketmq.broker.statistics.statistics import Statistics
from pocketmq.broker.store.keys.key_index import KeyIndex
from pocketmq.broker.store.store import MessageStore
from pocketmq.broker.topics.kept_topics import kept_of
from pocketmq.broker.work_share import WorkShare
from pocketmq.runtime.clock import Clock


class ReplicaParts(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The parts of a follower that handlers work with.

    Attributes:
        clock, store: of the broker.
        data: what the follower knows besides messages.
        members: the living producers and consumers.
        progress: how far each group has pulled here.
        polling: the pulls that wait for a message.
        work_share: bounds costly reads in a turn of the loop.
        catch_up: bounds the time that groups far behind take from the leader's records.
        keys: finds messages by key.
        statistics: what was consumed here.
        disk_forecast: when the disk will be full.
        back_pressure: what holds up clients that ask for too much.
        rate_limits: what an address, a client and a user may ask for in a second.
    """

    clock: Clock
    store: MessageStore
    data: ReplicaData
    members: Membership
    progress: PullProgress
    polling: LongPolling
    work_share: WorkShare
    catch_up: CatchUpShare
    keys: KeyIndex
    statistics: Statistics
    disk_forecast: DiskForecast
    back_pressure: BackPressure
    rate_limits: RateLimits


def replica_parts(
    store: MessageStore, config: BrokerConfig, clock: Clock, stack: AsyncExitStack
) -> ReplicaParts:
    """Builds the parts of a follower.

    Args:
        store, config, clock: of the broker.
        stack: closes what is opened here.

    Raises:
        ConfigError: passwords of users cannot be decrypted.
    """
    data, machine = ReplicaData(store, config, clock), clock.machine
    progress, work_share = PullProgress(clock), WorkShare()
    parts = ReplicaParts(
        clock=clock,
        store=store,
        data=data,
        members=Membership(data.groups, clock, data.settings.view(MembershipSettings.of)),
        progress=progress,
        polling=LongPolling(
            machine, config.max_held_pulls, work_share, config.max_held_pulls_of_connection
        ),
        work_share=work_share,
        catch_up=CatchUpShare(machine, store.counters.total, work_share),
        keys=KeyIndex(store),
        statistics=Statistics(
            config.broker_cluster_name,
            store.counters,
            store.logs,
            progress,
            Traffic(clock.monotonic()),
            PopTraffic(clock),
            clock,
        ),
        disk_forecast=DiskForecast(
            store.disk,
            store.counters,
            store.logs,
            data.settings.view(lambda c: c.reserved_ms),
            lambda name: kept_of(data.topics.get(name)),
            clock,
        ),
        back_pressure=back_pressure_of(store, data.settings, clock),
        rate_limits=RateLimits(Rates.of(config), clock),
    )
    stack.callback(parts.back_pressure.watch.close)
    stack.callback(parts.catch_up.close)
    store.checkpointed.add(parts.keys.want)
    return parts
