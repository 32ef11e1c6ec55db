"""Why a request was refused, for logs, counters and audits."""

from __future__ import annotations

import logging
from typing import NamedTuple

from pocketmq.transport.connection import Connection
from pocketmq.transport.peer_log import PeerLog

log = logging.getLogger("pocketmq.auth")

NAME_LENGTH_MAX = 255
"""Letters of a user's name that are repeated in answers and logs."""


class RefusedRequest(NamedTuple):
    """A request that was not handled.

    Attributes:
        connection: on which it came.
        code: of the request.
        user: the name that it gave, cut at `NAME_LENGTH_MAX`; empty without one.
        is_known: whether it has proved that it is this user's.
        remark: why it was refused, as it was answered.
        is_oneway: whether the peer is told nothing.
    """

    connection: Connection
    code: int
    user: str
    is_known: bool
    remark: str
    is_oneway: bool


class RefusalLog:
    """Counts refused requests, and logs a few of each address a minute.

    Args:
        peer_log: bounds the lines.

    Attributes:
        count: of the refused requests.
    """

    def __init__(self, peer_log: PeerLog) -> None:
        self._peer_log = peer_log
        self.count = 0

    def note(self, refused: RefusedRequest) -> None:
        """Counts and logs a request."""
        self.count += 1
        self._peer_log.warning(
            refused.connection.remote_address,
            "refused request %d of %s: %s",
            refused.code,
            refused.connection.peer_name,
            refused.remark,
        )
