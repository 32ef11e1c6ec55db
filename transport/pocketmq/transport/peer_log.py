"""Warnings about peers, a few of each address a minute: no peer can fill a disk with them."""

from __future__ import annotations

import logging

from pocketmq.runtime.clock import Clock

log = logging.getLogger("pocketmq.transport")

LINES_MAX = 5
"""Lines of one address in `PERIOD_S` seconds; the others are counted."""

PERIOD_S = 60.0

ADDRESSES_MAX = 1024
"""Addresses that are counted apart; those beyond share one count."""

_OTHERS = "other addresses"


class PeerLog:
    """Logs warnings about peers, and counts those that are too many.

    Args:
        clock: for the period.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._counts: dict[str, int] = {}

    def warning(self, address: str, text: str, *args: object) -> None:
        """Logs a line about a peer, unless its host had its lines in this period.

        Args:
            address: of the peer, ``host:port``; the lines of a host count together.
            text, args: as `logging.Logger.warning` takes them.
        """
        host = address.rpartition(":")[0]
        if host not in self._counts:
            if len(self._counts) >= ADDRESSES_MAX:
                host = _OTHERS
            if host not in self._counts:
                self._counts[host] = 0
                self._clock.call_later(PERIOD_S, self._end, host)
        self._counts[host] += 1
        if self._counts[host] <= LINES_MAX:
            log.warning(text, *args)

    def _end(self, host: str) -> None:
        """Ends the period of a host, and says how many lines were left out in it."""
        left_out = self._counts.pop(host) - LINES_MAX
        if left_out > 0:
            log.warning("left out %d more warnings about %s within %g s", left_out, host, PERIOD_S)
