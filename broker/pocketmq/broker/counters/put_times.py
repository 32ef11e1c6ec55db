"""How long sends waited for the store (`StoreStatsService#setPutMessageEntireTimeMax`)."""

from __future__ import annotations

from collections import Counter

_LIMITS_MS = (
    (1, "<=0ms"), (10, "0~10ms"), (50, "10~50ms"), (100, "50~100ms"), (200, "100~200ms"),
    (500, "200~500ms"), (1000, "500ms~1s"), (2000, "1~2s"), (3000, "2~3s"), (4000, "3~4s"),
    (5000, "4~5s"), (10_000, "5~10s"),
)  # fmt: skip
_LAST_NAME = "10s~"

SHOWN_MS_MAX = 10_000
"""Longer times count as this one, but for the maximum."""


class PutTimes:
    """Times of the running minute and of the one before it.

    Attributes:
        max_ms: the longest time ever.
        total_s, count: of all requests.
    """

    def __init__(self) -> None:
        self.max_ms = 0
        self.total_s, self.count = 0.0, 0
        self._before: dict[int, int] = {}
        self._current: dict[int, int] = {}

    def add(self, elapsed_s: float, count: int) -> None:
        """Counts requests that took the same time."""
        self.total_s += elapsed_s * count
        self.count += count
        elapsed_ms = int(elapsed_s * 1000)  # each turn of the broker passes here: plain steps
        if elapsed_ms > self.max_ms:
            self.max_ms = elapsed_ms
        if elapsed_ms > SHOWN_MS_MAX:
            elapsed_ms = SHOWN_MS_MAX
        current = self._current
        current[elapsed_ms] = current.get(elapsed_ms, 0) + count

    def begin_minute(self) -> None:
        """Begins a new minute."""
        self._before, self._current = self._current, {}

    def percentile_ms(self, share: float) -> float:
        """Returns the time that a share of the requests did not exceed; 0 without requests."""
        times = self._times()
        left = times.total() * share
        for elapsed_ms in sorted(times):
            left -= times[elapsed_ms]
            if left <= 0:
                return float(elapsed_ms)
        return 0.0

    def distribution(self) -> str:
        """Returns how many requests took how long, by RocketMQ's names of the spans."""
        counts = dict.fromkeys([*(name for _, name in _LIMITS_MS), _LAST_NAME], 0)
        for elapsed_ms, count in self._times().items():
            name = next((n for limit, n in _LIMITS_MS if elapsed_ms < limit), _LAST_NAME)
            counts[name] += count
        return "".join(f"[{name}]:{count} " for name, count in counts.items())

    def _times(self) -> Counter[int]:
        return Counter(self._before) + Counter(self._current)
