"""Makes strangers wait: whoever does not prove who he is, is read from less and less often.

What holds up is the reading of one connection: the peer's own requests stay in its socket and cost
nothing. So a flood of requests without a valid signature takes nothing from those who sign.
"""

from __future__ import annotations

from pocketmq.auth.refused import RefusedRequest
from pocketmq.runtime.clock import Clock
from pocketmq.transport.connection import Connection
from pocketmq.transport.reading_state import Hold

FREE_COUNT = 4
"""Refusals of a connection that cost it nothing: a person who mistypes waits for nobody."""

PENALTY_MIN_S = 0.02
PENALTY_MAX_S = 2.0
"""The pause after the first refusal that costs; it doubles with each further one, up to this."""

FORGIVEN_S = 60.0
"""After so long without a refusal a connection begins anew."""

_COUNT = "refused"
"""A connection's attribute: how often it was refused, and when last."""


class Penalties:
    """Holds the reading of connections after requests of strangers.

    Args:
        clock: for the pauses.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def note(self, refused: RefusedRequest) -> None:
        """Holds a connection up for a refused request, unless it has proved whose it is."""
        connection = refused.connection
        if refused.is_known or connection.is_closing:
            return
        now_s = self._clock.monotonic()
        count, last_s = connection.attributes.get(_COUNT, (0, now_s))
        if now_s - last_s > FORGIVEN_S:
            count = 0
        connection.attributes[_COUNT] = (count + 1, now_s)
        doublings = count - FREE_COUNT
        if doublings < 0 or connection.is_held(Hold.PENALTY):
            return
        pause_s = min(PENALTY_MIN_S * 2.0 ** min(doublings, 16), PENALTY_MAX_S)
        connection.hold_reading(Hold.PENALTY)
        self._clock.call_later(pause_s, _release, connection)


def _release(connection: Connection) -> None:
    connection.release_reading(Hold.PENALTY)
