"""Frames in and out of one socket: the base class of the connections of both sides."""

from __future__ import annotations

import asyncio
import logging
import sys
from abc import ABC, abstractmethod
from typing import Protocol, cast

import msgspec

from pocketmq.protocol.errors import FrameError
from pocketmq.protocol.messages.hosts import encode_host, join_address
from pocketmq.protocol.wire import frames
from pocketmq.protocol.wire.command import FLAG_RESPONSE, Command
from pocketmq.runtime.clock import Clock, Timer
from pocketmq.transport.errors import ConnectionClosedError
from pocketmq.transport.frame_budget import SMALL_FRAME_SIZE, FrameBudget
from pocketmq.transport.frame_share import FrameShare
from pocketmq.transport.limits import Limits
from pocketmq.transport.peer_log import PeerLog
from pocketmq.transport.place_receiver import PlaceReceiver
from pocketmq.transport.reading_state import NO_HOLDS, Hold, ReadingEvent, ReadingState, after
from pocketmq.transport.slow_readers import SlowReaders

log = logging.getLogger("pocketmq.transport")

IDLE_TOLERANCE_S = 1e-6
"""A time left that is below this comes from rounding; its timer could fire at once, for ever."""

JOIN_SIZE_MAX = 64 * 1024
"""Frames of up to this many bytes in all are joined by a copy before they are written."""

CLOSED_BY_PEER = "closed by the peer"

_READING = ReadingState.READING


class ReadEvents(Protocol):
    """Is told before and after the requests of one read (one `data_received`) are handled.

    What the requests of a read ask for can so be done together before their answers leave, and
    work that no peer waits for after that.
    """

    def read_begins(self) -> None:
        """The requests of a read are about to be handled."""

    def read_ends(self) -> None:
        """The requests of the read have been handled; their answers leave next."""

    def replies_sent(self) -> None:
        """The answers that were ready have been written."""


class FrameStreamOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the streams of one owner have in common.

    Attributes:
        limits: what each connection may take.
        dials: whether this is the dialling side, which always takes the answers to its requests.
        read_events: notified when a read begins and ends.
        budget: gives room to large frames of the peers.
        slow_readers: notified of peers that do not keep up.
        share: says how many frames may be taken in an iteration of the loop.
        view_codes: requests whose handlers take a `memoryview` as their body.
        peer_log: takes warnings about peers; None for a log without bounds.
    """

    limits: Limits = Limits()
    dials: bool = False
    read_events: ReadEvents | None = None
    budget: FrameBudget | None = None
    slow_readers: SlowReaders | None = None
    share: FrameShare | None = None
    view_codes: frozenset[int] = frozenset()
    peer_log: PeerLog | None = None


class FrameStream(asyncio.Protocol, ABC):
    """Takes the frames of one socket read by read, and writes frames once an iteration of the loop.

    A peer that does not read is not read from; a peer that is quiet or sends garbage is closed.
    Subclasses say what becomes of requests and responses.

    Args:
        clock: for the idle limit.
        options: what it has in common with the other streams of its owner.
    """

    # More than 30 attributes in a dictionary of its own would cost each use CPython's fast paths.
    __slots__ = (
        "_begun_count",
        "_budget",
        "_closed",
        "_dials",
        "_holds",
        "_is_in_read",
        "_last_activity",
        "_loop",
        "_monotonic",
        "_out",
        "_out_size",
        "_parser",
        "_pause_size",
        "_peer_log",
        "_read_events",
        "_reserved",
        "_share",
        "_slow_readers",
        "_state",
        "_timer",
        "_transport",
        "_writable",
        "clock",
        "close_reason",
        "limits",
        "remote_address",
        "remote_host",
    )

    def __init__(self, clock: Clock, options: FrameStreamOptions) -> None:
        self.clock, self.limits = clock, options.limits
        self._monotonic = clock.monotonic
        self.remote_address = "unknown"
        self.remote_host = b""
        self.close_reason = CLOSED_BY_PEER
        self._dials = options.dials
        self._read_events, self._share = options.read_events, options.share
        self._budget, self._slow_readers = options.budget, options.slow_readers
        self._peer_log = options.peer_log
        self._reserved = 0  # which frame has room reserved, by the parser's count
        self._begun_count = 0  # frames that did not come in one read
        self._state = _READING
        self._holds = NO_HOLDS
        self._is_in_read = False  # then frames that are written leave at the end of the read
        self._parser = frames.FrameParser(options.limits.frame_size_max, options.view_codes)
        self._loop = asyncio.get_running_loop()
        self._out: list[bytes] = []
        self._out_size = 0
        self._pause_size = options.limits.write_pause_size
        self._writable: asyncio.Future[None] | None = None  # there while the peer does not read
        self._closed: asyncio.Future[None] = self._loop.create_future()
        self._timer: Timer | None = None  # for the idle limit, then for the end of a close
        self._last_activity = self._monotonic()

    @abstractmethod
    def _take_request(self, request: Command) -> None:
        """Handles a request of the peer."""

    @abstractmethod
    def _take_response(self, response: Command) -> None:
        """Handles an answer of the peer."""

    # -- asyncio.Protocol ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Starts the stream: notes the peer's address, and watches for idleness."""
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

    @property
    def local_address(self) -> str:
        """The address of this side, ``host:port``, at which the peer has reached it."""
        name = self._transport.get_extra_info("sockname")
        if not isinstance(name, tuple):
            return "unknown"
        return join_address(name[0].removeprefix("::ffff:"), name[1])

    def take_over(self, transport: asyncio.Transport, first_bytes: bytes) -> None:
        """Takes a transport over from the protocol that has read the first bytes of its peer."""
        transport.set_protocol(self)
        self.connection_made(transport)
        if first_bytes and not self.is_closing:
            self.data_received(first_bytes)

    def data_received(self, data: bytes) -> None:
        """Feeds bytes of the peer to the parser, and takes the frames that are complete."""
        self._last_activity = self._monotonic()
        self._parser.feed(data)
        if self._state is _READING:
            self._take_frames()
        elif Hold.PUT_OFF not in self._holds:
            self.hold_reading(Hold.PUT_OFF)

    @property
    def place_left(self) -> memoryview:
        """Where the next bytes of the large frame belong that is received in its place."""
        return self._parser.place_left

    def received_in_place(self, size: int) -> None:
        """Takes the large frame whose bytes stand in their place when it is complete."""
        self._last_activity = self._monotonic()
        self._parser.placed(size)
        missing = self._parser.missing_size
        if missing:
            assert self._budget is not None
            self._budget.arrived(self, missing)
            return
        self._transport.set_protocol(self)
        if self._state is _READING:
            self._take_frames()
        elif Hold.PUT_OFF not in self._holds:
            self.hold_reading(Hold.PUT_OFF)

    def _put_off(self) -> None:
        assert self._share is not None
        self._state = after(self._state, ReadingEvent.SHARE_USED_UP)
        self._share.put_off(self)

    def take_more(self) -> None:
        """Takes the frames that were put off to this iteration of the loop."""
        self._state = after(self._state, ReadingEvent.SHARE_RENEWED)
        if Hold.PUT_OFF in self._holds:
            self._end_hold(Hold.PUT_OFF)
        if not self._holds and not self.is_closing:
            self._take_frames()
        if self._state is ReadingState.DRAINING:
            self.close(CLOSED_BY_PEER)

    def _take_frames(self) -> None:
        if self._share is not None and self._share.frames_left <= 0:
            self._put_off()
            return
        # Answers given while a read is handled leave together at its end, in this very iteration.
        self._is_in_read = True
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
            self._is_in_read = False
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
            self.cut_off(str(e))
        finally:
            if share is not None:
                share.took(taken)

    def _reserve_frame(self) -> None:
        """Asks for room for what has come of a large frame before more of it is read."""
        budget, parser = self._budget, self._parser
        self._begun_count = parser.begun_count
        if budget is None:
            return
        if parser.missing_size and parser.begun_count == self._reserved:
            budget.arrived(self, parser.missing_size)
            return
        if self._reserved:
            self._reserved = 0
            budget.give_back(self)
        if parser.missing_size > SMALL_FRAME_SIZE:
            self._reserved = parser.begun_count
            missing = parser.missing_size
            is_kept = budget.begin(self, parser.buffered_size + missing, missing)
            if is_kept and parser.make_place():
                self._transport.set_protocol(PlaceReceiver(self))

    def is_held(self, reason: Hold) -> bool:
        """Whether nothing is taken of the peer for a reason."""
        return reason in self._holds

    def hold_reading(self, reason: Hold) -> None:
        """Takes nothing more of the peer until `release_reading` is called with the same reason."""
        assert reason not in self._holds, f"{reason.name} holds {self.peer_name} already"
        if not self._holds and not self.is_closing:
            self._transport.pause_reading()
        self._holds |= {reason}

    def release_reading(self, reason: Hold) -> None:
        """Takes frames again, from the next iteration on, if no other reason holds the peer."""
        if self._end_hold(reason):
            self._loop.call_soon(self._go_on)

    def _end_hold(self, reason: Hold) -> bool:
        """Takes back a reason for holding; tells whether the peer is read from now on."""
        assert reason in self._holds, f"{reason.name} does not hold {self.peer_name}"
        self._holds -= {reason}
        is_reading = not self._holds and not self.is_closing
        if is_reading:
            self._transport.resume_reading()
        return is_reading

    def _go_on(self) -> None:
        if self._state is _READING and not self._holds and not self.is_closing:
            self._take_frames()

    def pause_writing(self) -> None:
        """Stops reading requests of a peer that does not read its answers."""
        if self._writable is None:
            self._writable = self._loop.create_future()
            if not self._dials:
                self.hold_reading(Hold.UNREAD_ANSWERS)
            if self._slow_readers is not None and not self.is_closing:
                self._slow_readers.begin(self)

    def resume_writing(self) -> None:
        """Goes on with a peer that reads its answers again."""
        writable, self._writable = self._writable, None
        if writable is None:
            return
        if not writable.done():
            writable.set_result(None)
        if self._slow_readers is not None:
            self._slow_readers.end(self)
        if not self._dials:
            self.release_reading(Hold.UNREAD_ANSWERS)

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends the stream, and wakes all that waited for the peer to read."""
        if exc is not None:
            self.close_reason = str(exc) or type(exc).__name__
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
        """Closes, now or when the frames that were put off are taken; tells whether it waits."""
        self._state = after(self._state, ReadingEvent.PEER_CLOSED)
        if self._state is ReadingState.DRAINING:
            self.close(CLOSED_BY_PEER)
        return self._state is ReadingState.DRAINING_PUT_OFF

    # -- bytes out, and the end ---------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """Queues a frame; all frames of one iteration of the loop leave together."""
        out = self._out
        out.append(data)
        self._out_size += len(data)
        if self._out_size > self._pause_size:
            self._flush()  # now: the transport tells whether the peer keeps up
        elif len(out) == 1 and not self._is_in_read:
            self._loop.call_soon(self._flush)

    def write_command(self, command: Command) -> None:
        """Queues the frame of a command; a large body is not copied into it.

        Raises:
            UsageError: it does not fit in a frame; nothing is queued.
        """
        if len(command.body) < frames.LARGE_FRAME_SIZE:
            self.write(frames.encode(command))
        else:
            self.write(frames.encode_head(command))
            self.write(command.body)

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
            self.cut_off(f"it left more than {self.limits.write_buffer_max} bytes unread")
        elif was_slow and self._slow_readers is not None:
            self._slow_readers.wrote(self, size)

    @property
    def received_s(self) -> float:
        """When the bytes came that are being handled, in seconds of the clock."""
        return self._last_activity

    def set_pause_size(self, size: int) -> None:
        """Sets from how many unsent bytes on the peer counts as slow."""
        self._pause_size = size
        if not self.is_closing:
            self._transport.set_write_buffer_limits(high=size)

    @property
    def peer_name(self) -> str:
        """The peer's name in logs."""
        return self.remote_address

    @property
    def is_reading(self) -> bool:
        """Whether what the peer sends is taken now."""
        return not self._holds and self._state is _READING

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

    def cut_off(self, reason: str) -> None:
        """Closes at once, and warns of the peer's fault in the log."""
        self._warn("closing the connection of %s: %s", self.peer_name, reason)
        self.abort(reason)

    def _warn(self, text: str, *args: object) -> None:
        if self._peer_log is None:
            log.warning(text, *args)
        else:
            self._peer_log.warning(self.remote_address, text, *args)

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
