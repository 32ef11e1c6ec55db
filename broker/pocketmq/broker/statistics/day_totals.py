"""The values of counters when today and yesterday began (`store/stats/BrokerStats`)."""

from __future__ import annotations

from datetime import datetime, timedelta


class DayTotals:
    """Two counters, written down at each midnight of the machine's time zone.

    In memory only, as in RocketMQ: what was before the broker's start is not counted.

    Args:
        now_ms: milliseconds since the epoch.

    Attributes:
        put_today, put_yesterday, got_today, got_yesterday: messages stored and handed out until
            the day began.
    """

    def __init__(self, now_ms: int) -> None:
        self.put_today = self.put_yesterday = self.got_today = self.got_yesterday = 0
        self._midnight_ms = next_midnight_ms(now_ms)

    def look(self, now_ms: int, put: int, got: int) -> None:
        """Records the counters if a new day has begun since the last call."""
        if now_ms < self._midnight_ms:
            return
        self._midnight_ms = next_midnight_ms(now_ms)
        self.put_yesterday, self.put_today = self.put_today, put
        self.got_yesterday, self.got_today = self.got_today, got


def next_midnight_ms(now_ms: int) -> int:
    """Returns when the next day begins in the machine's time zone."""
    today = datetime.fromtimestamp(now_ms / 1000).replace(hour=0, minute=0, second=0, microsecond=0)
    return int((today + timedelta(days=1)).timestamp() * 1000)
