from __future__ import annotations

from pathlib import Path

import pytest
from support.store.stores import open_store, record_of

from pocketmq.broker.appending.appender import Appender
from pocketmq.broker.appending.real_targets import RealTargets
from pocketmq.broker.config.delay_levels import parse_delay_levels
from pocketmq.broker.delay.schedule import Schedule
from pocketmq.broker.groups.groups import GroupTable
from pocketmq.broker.store.settings import StoreSettings
from pocketmq.broker.store.store import MessageStore
from pocketmq.broker.topics.topics import TopicTable
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.names.names import SCHEDULE_TOPIC
from pocketmq.runtime.live import Live
from pocketmq.testing.clock import VirtualClock


class TickingClock(VirtualClock):
    """A clock that goes on by a millisecond whenever somebody looks."""

    looks = 0

    def now_ms(self) -> int:
        self.looks += 1
        return super().now_ms() + self.looks


def schedule_of(store: MessageStore) -> Schedule:
    topics = TopicTable(store.metadata, store.clock)
    groups = GroupTable(store.metadata, store.clock, Live(True))
    return Schedule(
        Live(parse_delay_levels("1s 5s")),
        store,
        store.metadata,
        store.clock,
        Appender(store),
        RealTargets(store, store.metadata_gaps, topics, groups),
    )


async def test_the_delay_counts_from_the_store_time(tmp_path: Path) -> None:
    store = open_store(tmp_path / "data", TickingClock(), StoreSettings(disk_free_min=0))
    schedule = schedule_of(store)
    target = store.queue_log("Orders", 3)
    for level, delay_ms in ((1, 1000), (2, 5000), (3, 5000)):
        redirect = schedule.redirect_to_level(level, target, "a\x01b\x02DELAY\x019\x02")
        assert redirect.queue_log is store.find_log(SCHEDULE_TOPIC, min(level, 2) - 1)
        assert 0 <= redirect.deliver_ms - (redirect.store_ms + delay_ms) <= 2
        assert props.decode(redirect.properties) == {
            "a": "b", "DELAY": str(min(level, 2)), "REAL_TOPIC": "Orders", "REAL_QID": "3",
        }  # fmt: skip
    await schedule.close()
    await store.close()


async def test_what_names_no_topic_is_dropped(
    tmp_path: Path, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store(tmp_path / "data", clock, StoreSettings(disk_free_min=0))
    queue_log = store.queue_log(SCHEDULE_TOPIC, 0)
    queue_log.append(record_of(queue_log, b"x", store_time_ms=clock.now_ms()), clock.now_ms(), None)
    store.schedule_commit(queue_log)
    store.commit()
    schedule = schedule_of(store)
    schedule.start()
    await clock.advance(1)
    assert [r.message for r in caplog.records if "dropped: it names no topic" in r.message]
    assert not clock.pending_timers
    await schedule.close()
    again = schedule_of(store)
    again.start()
    await clock.advance(1)
    assert len([r for r in caplog.records if "names no topic" in r.message]) == 1, "once"
    await again.close()
    await store.close()
