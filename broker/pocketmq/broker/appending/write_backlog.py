"""Sends that come faster than the disk takes them (`broker/latency/BrokerFastFailure`).

A request that waited too long is refused as busy, because its client is about to give up on it and
had better try another broker. While too much waits for a flush, whoever sends is not read from.
"""

from __future__ import annotations

from functools import wraps

import msgspec

from pocketmq.broker.config.config import BrokerConfig
from pocketmq.broker.store.writing.committer import Committer
from pocketmq.broker.store.writing.flusher import Flusher
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.errors import ResponseError, response_error
from pocketmq.protocol.wire.command import Command
from pocketmq.runtime.live import Live
from pocketmq.transport.connection import Connection, Handler, Reply
from pocketmq.transport.reading_state import Hold

WRITE_CODES = (
    RequestCode.SEND_MESSAGE,
    RequestCode.SEND_MESSAGE_V2,
    RequestCode.SEND_BATCH_MESSAGE,
    RequestCode.CONSUMER_SEND_MSG_BACK,
    RequestCode.BULK_APPEND,
)
"""What RocketMQ hands to its threads for sends, and our own bulk append."""


class BacklogSettings(msgspec.Struct, frozen=True):
    """From when on the broker is busy.

    Attributes:
        is_enabled: brokerFastFailureEnable; without it nothing is refused, only held up.
        turn_wait_ms: how long a request may wait for its turn (waitTimeMillsInSendQueue).
        flush_wait_ms: how long a flush may take before others are refused
            (osPageCacheBusyTimeOutMills).
        size_max: bytes that may wait for flushes; above it senders are not read from until half of
            them are on the disk.
    """

    is_enabled: bool = True
    turn_wait_ms: int = 200
    flush_wait_ms: int = 1000
    size_max: int = 256 * 1024 * 1024

    @classmethod
    def of(cls, config: BrokerConfig) -> BacklogSettings:
        """The part of a broker's settings that the backlog depends on."""
        return cls(
            is_enabled=config.broker_fast_failure_enable,
            turn_wait_ms=config.wait_time_mills_in_send_queue,
            flush_wait_ms=config.os_page_cache_busy_time_out_mills,
            size_max=config.flush_backlog_size_max,
        )


class WriteBacklog:
    """Stands before the handlers that append.

    Where requests wait in a broker of one thread: for those of other connections that were read in
    the same turn of its loop, and under SYNC_FLUSH for the disk.

    Args:
        committer, flusher: of the store, in which requests wait.
        settings: from when on the broker is busy.

    Attributes:
        refused_count: requests that were refused since the start.
    """

    def __init__(
        self, committer: Committer, flusher: Flusher, settings: Live[BacklogSettings]
    ) -> None:
        self._committer, self._flusher, self._settings = committer, flusher, settings
        self._flusher.answered.add(self._eased)
        self.refused_count = 0
        self._held: dict[Connection, None] = {}

    def guard(self, code: int, handler: Handler) -> Handler:
        """Returns a handler that refuses requests while the broker is busy.

        Args:
            code: of the requests; only what writes is guarded, see `WRITE_CODES`.
            handler: handles them otherwise.

        Raises:
            BusyError: 2, when it is called.
        """
        if code not in WRITE_CODES:
            return handler
        committer, flusher = self._committer, self._flusher

        @wraps(handler)
        def guarded_handler(command: Command, connection: Connection) -> Reply:
            if committer.waiting_since_s is not None or flusher.waiting_size:
                self._check(connection)
            return handler(command, connection)

        return guarded_handler

    def _check(self, connection: Connection) -> None:
        flusher, settings = self._flusher, self._settings.now
        if settings.is_enabled:
            waiting_since_s = self._committer.waiting_since_s
            if waiting_since_s is not None:
                waited_ms = (connection.received_s - waiting_since_s) * 1000
                if waited_ms > settings.turn_wait_ms:
                    raise self._busy(
                        f"[TIMEOUT_CLEAN_QUEUE]broker busy: the request waited {waited_ms:.0f} ms "
                        f"for its turn, waitTimeMillsInSendQueue is {settings.turn_wait_ms}"
                    )
            waited_ms = flusher.oldest_wait_s() * 1000
            if waited_ms > settings.flush_wait_ms:
                raise self._busy(
                    f"[PCBUSY_CLEAN_QUEUE]broker busy: the disk has been flushing for "
                    f"{waited_ms:.0f} ms, osPageCacheBusyTimeOutMills is {settings.flush_wait_ms}"
                )
        if flusher.waiting_size > settings.size_max and connection not in self._held:
            self._held[connection] = None
            connection.hold_reading(Hold.WRITE_BACKLOG)

    def _busy(self, remark: str) -> ResponseError:
        self.refused_count += 1
        return response_error(
            ResponseCode.SYSTEM_BUSY, f"{remark}; send again, to another broker if there is one"
        )

    @property
    def held_count(self) -> int:
        """How many connections are not read from at the moment."""
        return len(self._held)

    def _eased(self) -> None:
        if self._held and self._flusher.waiting_size <= self._settings.now.size_max // 2:
            held, self._held = self._held, {}
            for connection in held:
                connection.release_reading(Hold.WRITE_BACKLOG)
