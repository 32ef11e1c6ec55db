"""What a broker answers while it stops, or changes its role in a broker set."""

from __future__ import annotations

from pocketmq.broker.refusals import unavailable
from pocketmq.protocol.wire.command import Command
from pocketmq.transport.connection import UNKNOWN_CODE, Connection, Handler


def leave(handlers: dict[int, Handler]) -> None:
    """Empties a table of handlers: what still comes is refused with 14, and clients ask elsewhere.

    Without any handler they would be told that nobody knows the request (3), and give up.
    """
    handlers.clear()
    handlers[UNKNOWN_CODE] = _refuse


def _refuse(_: Command, __: Connection) -> Command:
    raise unavailable("the broker stops, or another member of its set leads: look at the route")
