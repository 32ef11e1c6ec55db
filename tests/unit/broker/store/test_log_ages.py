from __future__ import annotations

from pathlib import Path

import pytest
from support.store.stores import BORN_MS, abandon, open_store, put

from pocketmq.broker.store.log_ages import Limits, LogAges
from pocketmq.broker.store.store import MessageStore
from pocketmq.testing.clock import VirtualClock

FAR_MS = BORN_MS * 2


def look_at_all(ages: LogAges) -> None:
    while ages.look():
        pass


def due(ages: LogAges, limit_ms: int) -> list[str]:
    return [known.topic for known in ages.take_due(Limits(limit_ms, limit_ms))]


@pytest.fixture
def store(data: Path, clock: VirtualClock) -> MessageStore:
    return open_store(data, clock)


async def test_logs_are_due_when_their_last_record_is_old_the_oldest_first(
    store: MessageStore, clock: VirtualClock
) -> None:
    put(store, b"1", topic="Second")
    put(store, b"2", topic="First")
    await clock.advance(1)
    put(store, b"3", topic="Second")
    now_ms = clock.now_ms()
    ages = LogAges(store.logs, store.clock)
    look_at_all(ages)
    assert due(ages, now_ms - 1000) == []
    assert due(ages, now_ms + 1) == ["First", "Second"]
    assert due(ages, FAR_MS) == [], "whoever takes a log puts it back"
    queue_log = store.queue_log("First", 0)
    ages.put(queue_log)
    assert due(ages, FAR_MS) == ["First"]
    abandon(store)


async def test_logs_of_before_the_start_are_not_opened_unless_they_have_old_segments(
    store: MessageStore, clock: VirtualClock, data: Path
) -> None:
    put(store, b"1", topic="Small")
    put(store, *[b"x" * 500] * 3, topic="Large")
    times = {name: store.queue_log(name, 0).last_timestamp for name in ("Small", "Large")}
    await store.close()
    store = open_store(data, clock)
    ages = LogAges(store.logs, store.clock)
    look_at_all(ages)
    assert [queue_log.topic for queue_log in store.logs.open_logs()] == ["Large"]
    assert due(ages, max(times.values()) + 1) == ["Small", "Large"]
    await store.close()


async def test_deleted_logs_are_never_due(store: MessageStore, clock: VirtualClock) -> None:
    for topic in ("Seen", "Unseen"):
        put(store, b"1", topic=topic)
    ages = LogAges(store.logs, store.clock)
    ages.look()
    for topic in ("Seen", "Unseen"):
        await store.delete_topic(topic)
    look_at_all(ages)
    assert due(ages, FAR_MS) == []
    await store.close()


async def test_logs_of_topics_with_a_time_of_their_own_are_due_by_it(
    store: MessageStore, clock: VirtualClock
) -> None:
    for topic in ("Usual", "Own"):
        put(store, b"1", topic=topic)
    ages = LogAges(store.logs, store.clock)
    ages.set_own_times({"Own": 5000})
    look_at_all(ages)
    stored_ms = store.queue_log("Own", 0).last_timestamp
    begin = Limits(0, stored_ms)
    assert ages.idle_ms(begin, begin) == 5001
    assert [known.topic for known in ages.take_due(Limits(0, stored_ms + 5000))] == []
    assert [known.topic for known in ages.take_due(Limits(0, stored_ms + 5001))] == ["Own"]
    ages.put(store.queue_log("Own", 0))
    ages.set_own_times({"Usual": 1})
    assert ages.idle_ms(begin, begin) == 0, "both are to be looked at"
    look_at_all(ages)
    assert [known.topic for known in ages.take_due(Limits(stored_ms + 1, 0))] == ["Own"]
    assert [known.topic for known in ages.take_due(Limits(0, stored_ms + 2))] == ["Usual"]
    await store.close()
