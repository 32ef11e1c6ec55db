"""What is remembered of resets, and for how long."""

from __future__ import annotations

import pytest

from pocketmq.console.api.bodies.offsets import QueueReset
from pocketmq.console.api.changes import offset_history
from pocketmq.console.api.changes.offset_history import CHANGES_MAX, KEPT_MS, OffsetHistory
from pocketmq.testing.clock import VirtualClock


def moved(number: int = 0, after: int = 5) -> QueueReset:
    return QueueReset(broker="broker-a", queue=number, before=3, after=after, messages=3 - after)


def add(history: OffsetHistory, group: str = "billing", queues: int = 1) -> str | None:
    return history.add(group, "Orders", [moved(n) for n in range(queues)], "", None)


async def test_a_change_is_remembered_for_a_day() -> None:
    clock = VirtualClock()
    history = OffsetHistory(clock)
    first = add(history)
    assert first is not None
    await clock.advance((KEPT_MS - 1) / 1000)
    second = add(history)
    assert [each.change for each in history.of_group("billing")] == [second, first]
    await clock.advance(0.001)
    assert [each.change for each in history.of_group("billing")] == [second]
    assert history.get("billing", first) is None


def test_only_what_has_moved_is_remembered_and_of_its_group_alone() -> None:
    history = OffsetHistory(VirtualClock())
    assert history.add("billing", "Orders", [moved(after=3)], "", None) is None
    name = history.add("billing", "Orders", [moved(0), moved(1, after=3)], "amy", "poison")
    assert name is not None
    found = history.get("billing", name)
    assert found is not None
    assert ([queue.queue for queue in found.queues], found.user, found.reason) == (
        [0], "amy", "poison",
    )  # fmt: skip
    assert history.get("other", name) is None
    assert history.of_group("other") == []


def test_the_oldest_changes_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    history = OffsetHistory(VirtualClock())
    names = [add(history) for _ in range(CHANGES_MAX + 2)]
    assert [each.change for each in history.of_group("billing")] == names[:1:-1]
    monkeypatch.setattr(offset_history, "QUEUES_MAX", 10)
    large = add(history, queues=9)
    assert [each.change for each in history.of_group("billing")] == [large, names[-1]]
    larger = add(history, queues=11)  # the newest one stays, however large
    assert [each.change for each in history.of_group("billing")] == [larger]
