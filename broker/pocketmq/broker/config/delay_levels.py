"""The delay levels of a broker, as the setting `messageDelayLevel` lists them."""

from __future__ import annotations

from typing import NamedTuple

from pocketmq.protocol.errors import ConfigError

DELAY_LEVELS_DEFAULT = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"

LEVELS_MAX = 256
"""Each level that is used costs a queue log."""

DELAY_MS_MAX = 365 * 24 * 3_600_000
"""A year: what is longer is a slip of the pen."""

_UNITS_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class DelayLevels(NamedTuple):
    """The delays of levels 1, 2, 3, …, in milliseconds."""

    delays_ms: tuple[int, ...]

    def clamp(self, level: int) -> int:
        """Lowers a level that is too high to the highest one."""
        return min(level, len(self.delays_ms))

    def delay_ms(self, level: int) -> int:
        """Returns the delay of a level; for one that no longer exists, that of the last level."""
        return self.delays_ms[self.clamp(level) - 1]


def parse_delay_levels(text: str) -> DelayLevels:
    """Reads `messageDelayLevel` (`ScheduleMessageService#parseDelayLevel`).

    Raises:
        ConfigError: it is not a list of numbers, each with one of the units s, m, h, d.
    """
    delays: list[int] = []
    for word in text.split():
        number, unit_ms = word[:-1], _UNITS_MS.get(word[-1])
        if unit_ms is None or not (number.isascii() and number.isdecimal()):
            raise ConfigError(
                f"messageDelayLevel holds {word!r}: each level is a number with one of the units "
                f"s, m, h, d, as in {DELAY_LEVELS_DEFAULT!r}"
            )
        # Twelve digits are more than any unit's maximum has; int() limits those that it reads.
        delay_ms = int(number[:12]) * unit_ms if len(number) <= 12 else DELAY_MS_MAX + 1
        if not 0 < delay_ms <= DELAY_MS_MAX:
            raise ConfigError(
                f"messageDelayLevel holds {word!r}: a delay must be between 1 s and 365 d"
            )
        delays.append(delay_ms)
    if not 0 < len(delays) <= LEVELS_MAX:
        raise ConfigError(
            f"messageDelayLevel names {len(delays)} levels: it must be between 1 and {LEVELS_MAX}"
        )
    return DelayLevels(tuple(delays))
