from __future__ import annotations

from datetime import datetime

from pocketmq.broker.statistics.day_totals import DayTotals, next_midnight_ms

DAY_MS = 86_400_000


def test_midnight_is_the_one_of_this_machine() -> None:
    noon_ms = int(datetime(2024, 3, 9, 12, 0).timestamp() * 1000)
    midnight = datetime.fromtimestamp(next_midnight_ms(noon_ms) / 1000)
    assert midnight == datetime(2024, 3, 10)
    assert next_midnight_ms(next_midnight_ms(noon_ms)) > next_midnight_ms(noon_ms)


def test_the_counters_are_written_down_when_a_day_begins() -> None:
    noon_ms = int(datetime(2024, 6, 9, 12, 0).timestamp() * 1000)
    days = DayTotals(noon_ms)
    days.look(noon_ms + 1000, 5, 4)
    assert (days.put_today, days.got_today) == (0, 0)
    days.look(noon_ms + DAY_MS // 2, 50, 40)
    days.look(noon_ms + DAY_MS // 2 + 1, 51, 41)
    assert (days.put_today, days.got_today, days.put_yesterday) == (50, 40, 0)
    days.look(noon_ms + DAY_MS * 3 // 2, 80, 70)
    assert (days.put_today, days.got_today) == (80, 70)
    assert (days.put_yesterday, days.got_yesterday) == (50, 40)
