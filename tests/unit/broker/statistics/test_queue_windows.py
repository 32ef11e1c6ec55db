from __future__ import annotations

import pytest

from pocketmq.broker.counters.traffic import HOUR, MINUTE
from pocketmq.broker.statistics import queue_windows
from pocketmq.broker.statistics.queue_windows import QueueWindows


def test_a_queue_is_seen_through_windows() -> None:
    windows: QueueWindows[str] = QueueWindows()
    for second in range(0, 100, 10):
        windows.take(second, MINUTE, "q", (second,))
    minute = windows.growth(95, MINUTE, "q", (95,))
    assert minute is not None
    assert minute.amounts == (65,)
    assert minute.elapsed_s == 65
    hour = windows.growth(95, HOUR, "q", (95,))
    assert hour is not None
    assert hour.amounts == (95,)


def test_only_so_many_queues_have_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_windows, "QUEUES_MAX", 2)
    windows: QueueWindows[int] = QueueWindows()
    for queue in range(3):
        windows.take(0, MINUTE, queue, (1,))
    assert windows.growth(1, MINUTE, 1, (1,)) is not None
    assert windows.growth(1, MINUTE, 2, (1,)) is None
    windows.keep({1})
    assert windows.growth(1, MINUTE, 2, (1,)) is not None
