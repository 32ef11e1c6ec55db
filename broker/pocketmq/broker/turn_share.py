"""Bounds what requests other than sends and pulls may do in one turn of the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from functools import wraps

from pocketmq.protocol.codes import RequestCode as Code
from pocketmq.protocol.wire.command import Command
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.slices import next_slice
from pocketmq.transport.connection import Connection, Handler, Reply
from pocketmq.transport.reading_state import Hold
from pocketmq.transport.unsupported import Refusal

SHARE_S = 0.01
"""Work of one turn, of all connections together; the request that uses it up is the last."""

UNSHARED_CODES = frozenset(
    {
        Code.SEND_MESSAGE, Code.SEND_MESSAGE_V2, Code.SEND_BATCH_MESSAGE, Code.BULK_APPEND,
        Code.CONSUMER_SEND_MSG_BACK, Code.END_TRANSACTION, Code.SEND_REPLY_MESSAGE,
        Code.SEND_REPLY_MESSAGE_V2, Code.PULL_MESSAGE, Code.LITE_PULL_MESSAGE, Code.BULK_PULL,
        Code.QUERY_CONSUMER_OFFSET, Code.UPDATE_CONSUMER_OFFSET, Code.ACK_MESSAGE,
    }
)  # fmt: skip
"""What clients send for each message: each costs little, and the frames of a turn are bounded."""

SLICED_CODES = frozenset(
    {
        Code.HEART_BEAT, Code.LOCK_BATCH_MQ, Code.UNLOCK_BATCH_MQ, Code.GET_ALL_TOPIC_CONFIG,
        Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, Code.GET_TOPIC_STATS_INFO, Code.GET_CONSUME_STATS,
        Code.GET_BROKER_CONSUME_STATS, Code.QUERY_CONSUME_TIME_SPAN,
        Code.GET_ALL_PRODUCER_INFO,
    }
)  # fmt: skip
"""Requests that are handled in slices, and wait for nothing but their turns."""


class TurnShare:
    """Puts requests off to later turns when those of this turn have worked long enough.

    Nothing more is taken of a connection while its request waits or is handled in slices: requests
    keep their order, and no connection has two of the long ones under way.

    Args:
        clock: measures the work.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._left_s = SHARE_S
        self._is_used = False

    def guard(self, code: int, handler: Handler) -> Handler:
        """Returns a handler that keeps to the share; sends, pulls and refusals stay as they are.

        Args:
            code: of the requests.
            handler: handles them.
        """
        if code in UNSHARED_CODES or isinstance(handler, Refusal):
            return handler
        is_sliced = code in SLICED_CODES

        @wraps(handler)
        def guarded_handler(command: Command, connection: Connection) -> Reply:
            if self._left_s <= 0:
                connection.hold_reading(Hold.TURN_SHARE)
                return self._in_a_later_turn(handler, command, connection, is_sliced=is_sliced)
            reply = self._measured(handler, command, connection)
            if is_sliced and isinstance(reply, Awaitable):
                connection.hold_reading(Hold.TURN_SHARE)
                return _held(reply, connection)
            return reply

        return guarded_handler

    def _measured(self, handler: Handler, command: Command, connection: Connection) -> Reply:
        if not self._is_used:
            self._is_used = True
            asyncio.get_running_loop().call_soon(self._end_turn)
        begun_s = self._clock.stopwatch()
        try:
            return handler(command, connection)
        finally:
            self._left_s -= self._clock.stopwatch() - begun_s

    def _end_turn(self) -> None:
        self._is_used, self._left_s = False, SHARE_S

    async def _in_a_later_turn(
        self, handler: Handler, command: Command, connection: Connection, *, is_sliced: bool
    ) -> Command | None:
        is_held = True
        try:
            await next_slice(self._clock)
            reply = self._measured(handler, command, connection)
            if not isinstance(reply, Awaitable):
                return reply
            if not is_sliced:  # it may wait for this very connection
                connection.release_reading(Hold.TURN_SHARE)
                is_held = False
            return await reply
        finally:
            if is_held:
                connection.release_reading(Hold.TURN_SHARE)


async def _held(reply: Awaitable[Command | None], connection: Connection) -> Command | None:
    try:
        return await reply
    finally:
        connection.release_reading(Hold.TURN_SHARE)
