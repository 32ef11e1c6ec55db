"""Frames in and out of one socket, in chunks: what a connection of either side is built on."""

from __future__ import annotations

import asyncio
import logging
import sys
from abc import ABC, abstractmethod
from typing import Protocol, cast

from pocketmq.protocol.errors import FrameError
from pocketmq.protocol.messages.hosts import encode_host, join_address
from pocketmq.protocol.wire import frames
from pocketmq.protocol.wire.command import FLAG_RESPONSE, Command
from pocketmq.runtime.clock import Clock, Timer
from pocketmq.transport.errors import ConnectionClosedError
from pocketmq.transport.frame_budget import SMALL_FRAME_SIZE, FrameBudget
from pocketmq.transport.frame_share import FrameShare
from pocketmq.transport.limits import Limits
from pocketmq.transport.slow_readers import SlowReaders

log = logging.getLogger("pocketmq.transport")

IDLE_TOLERANCE_S = 1e-6
"""Less than that is left by rounding only; a timer for it may fire without any time gone by."""

JOIN_SIZE_MAX = 64 * 1024
"""Up to this many bytes are copied together before they are written; more go part by part."""


class ReadEvents(Protocol):
    """Told where the handling of one chunk of one connection's stream begins and ends.

    What the requests of a chunk ask for can so be done together before their answers leave, and
    what nobody waits for, afterwards.
    """

    def read_begins(self) -> None:
        """The requests of a chunk are about to be handled."""

    def read_ends(self) -> None:
        """They have been handled, and are about to be answered."""

    def replies_sent(self) -> None:
        """The answers that were ready have left."""


class FrameStream(asyncio.Protocol, ABC):
    """One socket's frames: taken a chunk at a time, written a turn of the loop at a time.

    A peer that does not read pauses it, one that is quiet or garbled ends it. What a frame means is
    the business of the class built on it, which takes requests and responses.

    Args:
        clock: for the idle limit.
        limits: what the connection may take.
        dials: whether this is the dialling side, which always takes the answers to its requests.
        read_events: told when a chunk begins and ends.
        budget: gives room to large frames of the peer.
        slow_readers: told when the peer does not keep up.
        share: says how many frames may be taken in a turn of the loop.
    """

    # More than 30 attributes in a dictionary of its own would cost each use CPython's fast paths.
    __slots__ = (
        "_begun_count",
        "_budget",
        "_closed",
        "_dials",
        "_ends_when_taken",
        "_holds",
        "_holds_while_put_off",
        "_in_chunk",
        "_is_put_off",
        "_last_activity",
        "_loop",
        "_monotonic",
        "_out",
        "_out_size",
        "_parser",
        "_pause_size",
        "_read_events",
        "_reserved",
        "_share",
        "_slow_readers",
        "_timer",
        "_transport",
        "_writable",
        "clock",
        "close_reason",
        "limits",
        "remote_address",
        "remote_host",
    )

    def __init__(
        self,
        clock: Clock,
        limits: Limits,
        *,
        dials: bool,
        read_events: ReadEvents | None = None,
        budget: FrameBudget | None = None,
        slow_readers: SlowReaders | None = None,
        share: FrameShare | None = None,
    ) -> None:
        self.clock, self.limits = clock, limits
        self._monotonic = clock.monotonic
        self.remote_address = "unknown"
        self.remote_host = b""
        self.close_reason = "closed by this side"
        self._dials = dials
        self._read_events = read_events
        self._budget, self._slow_readers = budget, slow_readers
        self._reserved = 0  # which frame has room reserved, by the parser's count
        self._begun_count = 0  # frames that did not come in one chunk
        self._holds = 0  # reasons for which nothing is read
        self._share = share
        self._is_put_off = False  # to a later turn
        self._holds_while_put_off = False
        self._ends_when_taken = False
        self._in_chunk = False
        self._parser = frames.FrameParser(limits.frame_size_max)
        self._loop = asyncio.get_running_loop()
        self._out: list[bytes] = []
        self._out_size = 0
        self._pause_size = limits.write_pause_size
        self._writable: asyncio.Future[None] | None = None
        self._closed: asyncio.Future[None] = self._loop.create_future()
        self._timer: Timer | None = None  # for the idle limit, then for the end of a close
        self._last_activity = self._monotonic()

    @abstractmethod
    def _take_request(self, request: Command) -> None:
        """Takes what the peer asks for."""

    @abstractmethod
    def _take_response(self, response: Command) -> None:
        """Takes what the peer answers."""

    # -- asyncio.Protocol ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Starts the stream."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is of no common class
        self._transport.set_write_buffer_limits(high=self.limits.write_pause_size)
        peer = transport.get_extra_info("peername")
        if peer:
            host, port = peer[0], peer[1]
            if host.startswith("::ffff:"):
                host = host[7:]
            self.remote_address = join_address(host, port)
            self.remote_host = encode_host(host, port)
        self._timer = self.clock.call_later(self.limits.idle_timeout_s, self._check_idle)

    def data_received(self, data: bytes) -> None:
        """Takes a chunk of the stream."""
        self._last_activity = self._monotonic()
        self._parser.feed(data)
        if not self._is_put_off:
            self._take_chunk()
        elif not self._holds_while_put_off:
            self._holds_while_put_off = True
            self.hold_reading()

    def _put_off(self) -> None:
        assert self._share is not None
        self._is_put_off = True
        self._share.put_off(self)

    def take_more(self) -> None:
        """Goes on with what was put off to this turn."""
        self._is_put_off = False
        if self._holds_while_put_off:
            self._holds_while_put_off = False
            self._end_hold()
        self._go_on()
        if self._ends_when_taken and not self._is_put_off:
            self.close("closed by the peer")

    def _take_chunk(self) -> None:
        if self._share is not None and self._share.frames_left <= 0:
            self._put_off()
            return
        # Answers given while a chunk is handled leave together at its end, in this very turn.
        self._in_chunk = True
        read_events = self._read_events
        try:
            if read_events is None:
                self._process()
            else:
                read_events.read_begins()
                try:
                    self._process()
                finally:
                    read_events.read_ends()
        finally:
            self._in_chunk = False
        if self._out:
            self._flush()
        if read_events is not None:
            read_events.replies_sent()

    def _process(self) -> None:
        parser, transport, share = self._parser, self._transport, self._share
        taken, taken_max = 0, sys.maxsize if share is None else share.frames_left
        try:
            # A peer that does not read its answers is not asked for more work; but the dialling
            # side always takes the answers to its own requests.
            while not self._holds:
                if taken == taken_max:
                    self._put_off()
                    return
                command = None if parser.is_drained else parser.next_command()
                if command is None:
                    if self._reserved or parser.begun_count != self._begun_count:
                        self._reserve_frame()
                    return
                taken += 1
                if command.flag & FLAG_RESPONSE:
                    self._take_response(command)
                else:
                    self._take_request(command)
                if transport.is_closing():
                    return
        except FrameError as e:
            log.warning("closing the connection of %s: %s", self.peer_name, e)
            self.abort(str(e))
        finally:
            if share is not None:
                share.took(taken)

    def _reserve_frame(self) -> None:
        """Sees to it that a large frame has room before the rest of it is read."""
        budget, parser = self._budget, self._parser
        self._begun_count = parser.begun_count
        if budget is None or (parser.missing_size and parser.begun_count == self._reserved):
            return
        if self._reserved:
            self._reserved = 0
            budget.give_back(self)
        if parser.missing_size > SMALL_FRAME_SIZE:
            self._reserved = parser.begun_count
            budget.reserve(self, parser.buffered_size + parser.missing_size)

    def hold_reading(self) -> None:
        """Takes nothing more of the peer until `release_reading`; may be called several times."""
        self._holds += 1
        if self._holds == 1 and not self.is_closing:
            self._transport.pause_reading()

    def release_reading(self) -> None:
        """Goes on, in the next turn of the loop, if no other reason is left for holding."""
        if self._end_hold():
            self._loop.call_soon(self._go_on)

    def _end_hold(self) -> bool:
        """Takes back one reason for holding; whether more is read from now on."""
        self._holds -= 1
        is_reading = not self._holds and not self.is_closing
        if is_reading:
            self._transport.resume_reading()
        return is_reading

    def _go_on(self) -> None:
        if not self._holds and not self._is_put_off and not self.is_closing:
            self._take_chunk()

    def pause_writing(self) -> None:
        """The peer does not keep up: stop reading its requests."""
        if self._writable is None:
            self._writable = self._loop.create_future()
            if not self._dials:
                self.hold_reading()
            if self._slow_readers is not None and not self.is_closing:
                self._slow_readers.begin(self)

    def resume_writing(self) -> None:
        """The peer keeps up again: go on with what was left."""
        writable, self._writable = self._writable, None
        if writable is None:
            return
        if not writable.done():
            writable.set_result(None)
        if self._slow_readers is not None:
            self._slow_readers.end(self)
        if not self._dials:
            self.release_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends the stream, and what waited for the peer to read."""
        if exc is not None:
            self.close_reason = str(exc) or type(exc).__name__
        elif not self.is_closing:
            self.close_reason = "closed by the peer"
        if self._timer is not None:
            self._timer.cancel()
        writable, self._writable = self._writable, None
        if writable is not None and not writable.done():
            writable.set_result(None)
        if self._slow_readers is not None:
            self._slow_readers.end(self)
        if self._budget is not None:
            self._budget.give_back(self)
        if not self._closed.done():
            self._closed.set_result(None)

    def eof_received(self) -> bool:
        """The peer is done: close, after what it has sent before."""
        if self._is_put_off:
            self._ends_when_taken = True
        else:
            self.close("closed by the peer")
        return self._ends_when_taken

    # -- bytes out, and the end ---------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """Queues a frame; all frames of one turn of the loop leave together."""
        out = self._out
        out.append(data)
        self._out_size += len(data)
        if self._out_size > self._pause_size:
            self._flush()  # now: the transport tells whether the peer keeps up with this turn
        elif len(out) == 1 and not self._in_chunk:
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        out, size, transport = self._out, self._out_size, self._transport
        if not out:
            return
        self._out, self._out_size = [], 0
        if transport.is_closing():
            return
        self._last_activity = self._monotonic()
        was_slow = self._writable is not None
        if len(out) == 1:
            transport.write(out[0])
        elif size <= JOIN_SIZE_MAX:
            transport.write(b"".join(out))
        else:
            transport.writelines(out)
        # The limit lies above the one at which writing pauses: there is nothing to ask before.
        if self._writable is None:
            return
        if transport.get_write_buffer_size() > self.limits.write_buffer_max:
            reason = f"it left more than {self.limits.write_buffer_max} bytes unread"
            log.warning("closing the connection of %s: %s", self.peer_name, reason)
            self.abort(reason)
        elif was_slow and self._slow_readers is not None:
            self._slow_readers.wrote(self, size)

    @property
    def received_s(self) -> float:
        """When the chunk came that is being handled, in seconds of the clock."""
        return self._last_activity

    def set_pause_size(self, size: int) -> None:
        """From how many unsent bytes on the peer counts as slow."""
        self._pause_size = size
        if not self.is_closing:
            self._transport.set_write_buffer_limits(high=size)

    @property
    def peer_name(self) -> str:
        """Who the peer is, for people to read."""
        return self.remote_address

    @property
    def is_closing(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._transport.is_closing()

    @property
    def unsent_size(self) -> int:
        """Bytes that wait for the peer to read."""
        return self._out_size + self._transport.get_write_buffer_size()

    def close(self, reason: str = "closed by this side") -> None:
        """Sends what is queued, then closes; a peer that does not read is cut off after a while.

        May be called again.
        """
        if self.is_closing:
            return
        self.close_reason = reason
        self._flush()
        self._transport.close()
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.clock.call_later(
            self.limits.close_timeout_s, self.abort, f"{reason}; it did not read its last answers"
        )

    def abort(self, reason: str) -> None:
        """Closes at once; what is queued is lost. May be called again."""
        if not self._closed.done():
            self.close_reason = reason
            self._out, self._out_size = [], 0
            self._transport.abort()

    async def wait_closed(self) -> None:
        """Returns when the connection is gone."""
        await asyncio.shield(self._closed)

    def _check_open(self) -> None:
        if self.is_closing:
            raise ConnectionClosedError(self.remote_address, self.close_reason)

    def _check_idle(self) -> None:
        quiet_s = self._monotonic() - self._last_activity
        left_s = self.limits.idle_timeout_s - quiet_s
        if left_s <= IDLE_TOLERANCE_S:
            log.info("closing the connection of %s: idle for %.0f s", self.peer_name, quiet_s)
            self.close(f"idle for {quiet_s:.0f} s")
        else:
            self._timer = self.clock.call_later(left_s, self._check_idle)
