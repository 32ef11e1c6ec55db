"""What a broker does by itself from time to time."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from pocketmq.broker.config.config import BrokerConfig
from pocketmq.broker.idle_groups import GROUPS_PER_SLICE, IdleGroups
from pocketmq.broker.parts import BrokerParts
from pocketmq.broker.registration.registration import Registration
from pocketmq.broker.statistics.disk_forecast import LOOK_PERIOD_S
from pocketmq.broker.statistics.statistics import SAMPLE_PERIOD_S
from pocketmq.broker.transactions.check_back import CheckBack, CheckSettings
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.slices import next_slice
from pocketmq.runtime.tasks import Action, Tasks, repeat

CLIENT_SCAN_PERIOD_S = 10.0
LOCK_SCAN_PERIOD_S = 60.0
KEY_INDEX_PERIOD_S = 1.0
IDLE_LOG_PERIOD_S = 60.0


class _Round(NamedTuple):
    """An action that is repeated.

    Attributes:
        name: of its task.
        period_s: the time between two rounds, read from the settings after each of them.
        idle_s: see `Clock.sleep_between_rounds`.
    """

    name: str
    period_s: Callable[[BrokerConfig], float]
    action: Action
    idle_s: Callable[[], float] = lambda: 0.0


def start_rounds(
    parts: BrokerParts, registration: Registration, store_host: bytes, tasks: Tasks
) -> None:
    """Starts the periodic tasks of a broker.

    What concerns the age of messages goes by the broker's clock, the rest by the machine's.

    Args:
        parts: what the tasks work with.
        registration: of the broker.
        store_host: its encoded address.
        tasks: owns the tasks from now on.
    """
    data = parts.data
    settings = data.settings
    checks = CheckBack(
        parts.transactions, parts.members.producers, data.store, parts.clock, data.appender,
        data.topics, settings.view(CheckSettings.of), store_host,
    )  # fmt: skip

    idle_groups = IdleGroups(data, parts.members.consumers, parts.progress, parts.clock.machine)

    async def save_offsets() -> None:
        while data.groups.save(GROUPS_PER_SLICE):
            await next_slice(parts.clock)
        data.topics.save()
        await data.offsets.save_in_slices(parts.clock)

    def start(clock: Clock, *rounds: _Round) -> None:
        for name, period_s, action, idle_s in rounds:
            watched = parts.back_pressure.watch.watched(name, action)
            tasks.spawn(repeat(clock, _in_force(period_s), watched, idle_s=idle_s), name)

    def _in_force(period_s: Callable[[BrokerConfig], float]) -> Callable[[], float]:
        return lambda: period_s(settings.now)

    tasks.spawn(data.store.log_checks.run(), "log checks")
    start(
        parts.clock,
        _Round("checks", lambda c: c.transaction_check_interval / 1000, checks.run, checks.idle_s),
        _Round(
            "retention",
            lambda c: c.clean_resource_interval / 1000,
            parts.retention.run,
            parts.retention.idle_s,
        ),
    )
    start(
        parts.clock.machine,
        _Round(
            "register",
            lambda c: c.register_name_server_period / 1000,
            registration.register_if_changed,
        ),
        _Round("checkpoint", lambda c: c.flush_interval_commit_log / 1000, data.store.checkpoint),
        _Round("offsets", lambda c: c.flush_consumer_offset_interval / 1000, save_offsets),
        _Round("delays", lambda c: c.flush_delay_offset_interval / 1000, parts.schedule.save),
        _Round(
            "transactions", lambda c: c.flush_delay_offset_interval / 1000, parts.transactions.save
        ),
        _Round("pops", lambda c: c.flush_delay_offset_interval / 1000, parts.popping.keep_small),
        _Round("keys", lambda _: KEY_INDEX_PERIOD_S, parts.keys.run),
        _Round("idle logs", lambda _: IDLE_LOG_PERIOD_S, data.store.logs.close_idle_logs),
        _Round("statistics", lambda _: SAMPLE_PERIOD_S, parts.statistics.sample),
        _Round("disk forecast", lambda _: LOOK_PERIOD_S, parts.disk_forecast.look),
        _Round("clients", lambda _: CLIENT_SCAN_PERIOD_S, parts.members.expire),
        _Round("idle groups", lambda c: c.idle_group_timeout / 1000, idle_groups.forget),
        _Round("order locks", lambda _: LOCK_SCAN_PERIOD_S, data.order_locks.expire),
    )
