"""The server's side of an HTTP/2 connection: bytes in, events and bytes out."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from typing import Protocol

from pocketmq.transport.http2 import frames
from pocketmq.transport.http2.floods import Flood
from pocketmq.transport.http2.frames import (
    END_HEADERS,
    END_STREAM,
    FRAME_SIZE_MAX,
    HEAD_SIZE,
    PADDED,
    PREFACE,
    PRIORITY_FLAG,
    UINT32,
    WINDOW_DEFAULT,
    WINDOW_MAX,
    ConnectionFault,
    ErrorCode,
    StreamFault,
)
from pocketmq.transport.http2.header_blocks import (
    BlockDecoder,
    Fields,
    check_request,
    check_trailers,
    malformed,
)
from pocketmq.transport.http2.limits import Http2Limits
from pocketmq.transport.http2.stream import Stream

RESETS_REMEMBERED = 256
"""Streams that this side reset lately: what the peer sent before it knew is passed over."""

OUTPUT_AT_ONCE = 64 * 1024
"""Data of queued answers that leaves in one write; more follows when the transport is empty."""


class Http2Events(Protocol):
    """What the owner of a connection hears of."""

    def on_request(self, stream: Stream, fields: Fields) -> None:
        """A request has begun."""

    def on_data(self, stream: Stream, data: bytes, is_end: bool) -> None:
        """A part of a request came; with `is_end` it is complete, and the data may be empty."""

    def on_drained(self, stream: Stream) -> None:
        """Queued data of an answer has left."""

    def on_closed(self, stream: Stream, code: ErrorCode | None) -> None:
        """The stream is gone: None after a whole answer, else why."""


class Http2Connection:
    """Keeps the rules of RFC 9113 for one peer.

    Args:
        events: hears of requests.
        limits: of the connection.
        monotonic: tells the time, for floods.

    Attributes:
        out: bytes that are to be sent, in parts; whoever sends them clears the list.
        streams: those that are open, by their numbers.
        queued_size: bytes of answers that wait for windows or for the peer to read.
        is_held: the transport is full: no queued data is put into `out`.
        is_over: a GOAWAY ended it; nothing more is taken.
        has_settings: the peer has greeted.
        last_stream: the highest number of a request that was taken.
    """

    __slots__ = (
        "_block",
        "_block_flags",
        "_block_frames",
        "_block_stream",
        "_checked",
        "_closing_at",
        "_decoder",
        "_empties",
        "_events",
        "_idles",
        "_left",
        "_length",
        "_limits",
        "_monotonic",
        "_out_size",
        "_pinged_at",
        "_pings",
        "_receive_window",
        "_reset",
        "_resets",
        "_rest",
        "_send_window",
        "_settings",
        "_stream_window",
        "_uncredited",
        "_waiting",
        "fault",
        "has_preface",
        "has_settings",
        "is_held",
        "is_interrupted",
        "is_over",
        "last_stream",
        "out",
        "queued_size",
        "streams",
    )

    def __init__(
        self, events: Http2Events, limits: Http2Limits, monotonic: Callable[[], float]
    ) -> None:
        self._events, self._limits, self._monotonic = events, limits, monotonic
        self._decoder = BlockDecoder(limits.header_list_max)
        self._rest = b""
        self._checked: Fields | None = None
        self._length: int | None = None
        self.has_preface = self.has_settings = self.is_held = self.is_over = False
        self.fault: ConnectionFault | None = None
        self._block: bytearray | None = None
        self._block_stream = self._block_flags = self._block_frames = 0
        self._send_window = self._stream_window = WINDOW_DEFAULT
        self._receive_window = limits.connection_window
        self._uncredited = 0
        self.streams: dict[int, Stream] = {}
        self.last_stream = self.queued_size = 0
        self._waiting: dict[int, Stream] = {}  # with queued data
        self._reset: dict[int, None] = {}
        self._closing_at: int | None = None  # streams beyond came after our GOAWAY
        self._pings: Flood | None = None
        self._pinged_at = 0
        self._settings: Flood | None = None
        self._empties: Flood | None = None
        self._idles: Flood | None = None
        self._resets: Flood | None = None
        self._left, self.is_interrupted = 0, False
        self._out_size = 0
        self.out: list[bytes | memoryview] = [
            frames.settings(
                {
                    frames.MAX_CONCURRENT_STREAMS: limits.streams_max,
                    frames.INITIAL_WINDOW_SIZE: limits.stream_window,
                    frames.MAX_HEADER_LIST_SIZE: limits.header_list_max,
                }
            )
            + frames.window_update(0, limits.connection_window - WINDOW_DEFAULT)
        ]

    # --- what the peer sends

    def receive(self, data: bytes, frames_max: int = sys.maxsize) -> int:
        """Takes bytes of the peer; answers and events follow from them.

        Args:
            data: what the peer has sent.
            frames_max: how many frames are taken now; the others are taken by another call, see
                `is_interrupted`.

        Returns:
            How many frames were taken.
        """
        if self.is_over:
            return 0
        self.is_interrupted = False
        self._left = frames_max
        try:
            self._receive(data)
        except ConnectionFault as fault:
            self.end(fault)
        return frames_max - self._left

    def _receive(self, data: bytes) -> None:
        buffer = self._rest + data if self._rest else data
        at, end = 0, len(buffer)
        if not self.has_preface:
            if buffer[: len(PREFACE)] != PREFACE[:end]:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "this port speaks HTTP/2 (gRPC)")
            if end < len(PREFACE):
                self._rest = buffer
                return
            self.has_preface, at = True, len(PREFACE)
        unpack = frames.HEAD.unpack_from
        while end - at >= HEAD_SIZE and not self.is_over:
            high, low, kind, flags, number = unpack(buffer, at)
            size = high << 8 | low
            if size > FRAME_SIZE_MAX:
                raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, f"a frame of {size} bytes")
            start = at + HEAD_SIZE
            if end - start < size:
                break
            if self._left <= 0:
                self.is_interrupted = True
                break
            self._left -= 1
            at = start + size
            number &= WINDOW_MAX
            try:
                self._frame(kind, flags, number, buffer[start:at])
            except StreamFault as fault:
                self.reset(number, fault.code)
        self._rest = buffer[at:]

    def _frame(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        if self._block is not None and (
            kind != frames.CONTINUATION or number != self._block_stream
        ):
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a header block is interrupted")
        if not self.has_settings and kind != frames.SETTINGS:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "the first frame is no SETTINGS")
        if kind == frames.DATA:
            self._data(flags, number, payload)
        elif kind == frames.HEADERS:
            self._headers(flags, number, payload)
        elif kind in _CONTROLS:
            _CONTROLS[kind](self, flags, number, payload)
        else:  # of an extension: passed over
            self._count_idle()

    def _data(self, flags: int, number: int, payload: bytes) -> None:
        size = len(payload)
        stream = self.streams.get(number)
        if stream is None and (not number or number > self.last_stream):
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"DATA on the idle stream {number}")
        self._take_window(size)
        is_end = bool(flags & END_STREAM)
        if stream is None or stream.is_remote_closed:
            if stream is None and (number in self._reset or self._came_late(number)):
                if not size:
                    self._count_empty()
                return
            raise StreamFault(ErrorCode.STREAM_CLOSED, "DATA after the end")
        stream.receive_window -= size
        if stream.receive_window < 0:
            raise StreamFault(ErrorCode.FLOW_CONTROL_ERROR, "more DATA than the stream's window")
        if flags & PADDED:
            payload = frames.without_padding(payload)
            self.credit(stream, size - len(payload))
        if not payload and not is_end:
            self._count_empty()
            return
        if stream.length_left is not None:
            stream.length_left -= len(payload)
            if stream.length_left < 0 or (is_end and stream.length_left):
                raise malformed("the data is not of its content-length")
        stream.is_remote_closed = is_end
        self._events.on_data(stream, payload, is_end)

    def _take_window(self, size: int) -> None:
        """The connection's window is given back at once: the streams' windows hold a peer up."""
        self._receive_window -= size
        if self._receive_window < 0:
            raise ConnectionFault(
                ErrorCode.FLOW_CONTROL_ERROR, "more DATA than the connection's window"
            )
        self._uncredited += size
        if self._uncredited * 2 >= self._limits.connection_window:
            self.out.append(frames.window_update(0, self._uncredited))
            self._receive_window += self._uncredited
            self._uncredited = 0

    def credit(self, stream: Stream, size: int) -> None:
        """So many bytes of a request are consumed: the peer may send as many more."""
        stream.uncredited += size
        if stream.uncredited * 2 >= self._limits.stream_window and not stream.is_remote_closed:
            self.out.append(frames.window_update(stream.id, stream.uncredited))
            stream.receive_window += stream.uncredited
            stream.uncredited = 0

    def _headers(self, flags: int, number: int, payload: bytes) -> None:
        if not number & 1:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"HEADERS on the stream {number}")
        if flags & PADDED:
            payload = frames.without_padding(payload)
        depends_on_itself = False
        if flags & PRIORITY_FLAG:
            if len(payload) < 5:
                raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "HEADERS without its priority")
            depends_on_itself = UINT32.unpack_from(payload)[0] & WINDOW_MAX == number
            payload = payload[5:]
        if not flags & END_HEADERS:
            self._block, self._block_stream = bytearray(payload), number
            self._block_flags, self._block_frames = flags, 0
            return
        self._header_block(flags, number, payload)
        if depends_on_itself:
            raise StreamFault(ErrorCode.PROTOCOL_ERROR, "a stream depends on itself")

    def _continuation(self, flags: int, number: int, payload: bytes) -> None:
        block = self._block
        if block is None:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "CONTINUATION without HEADERS")
        self._block_frames += 1
        block += payload
        if (
            self._block_frames > self._limits.continuations_max
            or len(block) > self._limits.header_list_max
        ):
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "too long a header block")
        if flags & END_HEADERS:
            self._block = None
            self._header_block(self._block_flags, number, bytes(block))

    def _header_block(self, flags: int, number: int, block: bytes) -> None:
        fields = self._decoder.decode(block)
        if self._idles is not None:
            self._idles.forgive()
        is_end = bool(flags & END_STREAM)
        stream = self.streams.get(number)
        if stream is not None:
            self._trailers(stream, fields, is_end)
            return
        if number <= self.last_stream:
            if number in self._reset:
                return
            raise ConnectionFault(ErrorCode.STREAM_CLOSED, f"the stream {number} is closed")
        if self._came_late(number):
            return
        self.last_stream = number
        if fields is not self._checked:  # calls often repeat their fields
            self._length = check_request(fields)
            self._checked = fields if self._decoder.remembers(block) else None
        length = self._length
        if is_end and length:
            raise malformed("the data is not of its content-length")
        if len(self.streams) >= self._limits.streams_max:
            raise StreamFault(ErrorCode.REFUSED_STREAM, "too many streams")
        stream = Stream(number, self._stream_window, self._limits.stream_window)
        stream.length_left, stream.is_remote_closed = length, is_end
        self.streams[number] = stream
        self._events.on_request(stream, fields)
        if is_end and number in self.streams:
            self._events.on_data(stream, b"", True)

    def may_repeat(self, fields: Fields) -> bool:
        """Whether further requests may come with this very list."""
        return fields is self._checked

    def _trailers(self, stream: Stream, fields: Fields, is_end: bool) -> None:
        if stream.is_remote_closed:
            raise StreamFault(ErrorCode.STREAM_CLOSED, "HEADERS after the end")
        if not is_end:
            raise malformed("trailers that end nothing")
        check_trailers(fields)
        if stream.length_left:
            raise malformed("the data is not of its content-length")
        stream.is_remote_closed = True
        self._events.on_data(stream, b"", True)

    def _came_late(self, number: int) -> bool:
        return self._closing_at is not None and number > self._closing_at

    def _priority(self, flags: int, number: int, payload: bytes) -> None:
        if not number:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "PRIORITY of the connection")
        self._count_idle()
        if len(payload) != 5:
            raise StreamFault(ErrorCode.FRAME_SIZE_ERROR, "PRIORITY of a wrong size")
        if UINT32.unpack_from(payload)[0] & WINDOW_MAX == number:
            raise StreamFault(ErrorCode.PROTOCOL_ERROR, "a stream depends on itself")

    def _rst_stream(self, flags: int, number: int, payload: bytes) -> None:
        if not number or (number > self.last_stream and not self._came_late(number)):
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "RST_STREAM of an idle stream")
        if len(payload) != 4:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "RST_STREAM of a wrong size")
        self._count_reset()
        stream = self.streams.get(number)
        if stream is not None:
            self._drop(stream)
            self._events.on_closed(stream, ErrorCode.CANCEL)

    def _settings_frame(self, flags: int, number: int, payload: bytes) -> None:
        if number:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "SETTINGS of a stream")
        if len(payload) % 6 or (flags & frames.ACK and payload):
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "SETTINGS of a wrong size")
        if self._settings is None:
            self._settings = self._flood("SETTINGS", self._limits.settings_max)
        self._settings.count()
        if flags & frames.ACK:
            return
        for key, value in frames.SETTING.iter_unpack(payload):
            self._setting(key, value)
        self.has_settings = True
        self.out.append(frames.frame(frames.SETTINGS, frames.ACK, 0))
        self.pump()

    def _setting(self, key: int, value: int) -> None:
        if key == frames.ENABLE_PUSH:
            if value > 1:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"ENABLE_PUSH {value}")
        elif key == frames.MAX_FRAME_SIZE:
            if not FRAME_SIZE_MAX <= value < 1 << 24:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"MAX_FRAME_SIZE {value}")
        elif key == frames.INITIAL_WINDOW_SIZE:
            if value > WINDOW_MAX:
                raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, f"a window of {value} bytes")
            change = value - self._stream_window
            self._stream_window = value
            for stream in self.streams.values():
                stream.send_window += change
                if stream.send_window > WINDOW_MAX:
                    raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "too large a window")

    def _push_promise(self, flags: int, number: int, payload: bytes) -> None:
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "clients push nothing")

    def _ping(self, flags: int, number: int, payload: bytes) -> None:
        if number:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "PING of a stream")
        if len(payload) != 8:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "PING of a wrong size")
        if self._pings is None:
            self._pings = self._flood("PING frames", self._limits.pings_max)
        if self._pinged_at != self.last_stream:
            # Clients that adapt their windows to the network send one for each answer they read.
            self._pinged_at = self.last_stream
            self._pings.forgive()
        self._pings.count()
        if not flags & frames.ACK:
            self.out.append(frames.frame(frames.PING, frames.ACK, 0, payload))

    def _goaway(self, flags: int, number: int, payload: bytes) -> None:
        if number:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "GOAWAY of a stream")
        if len(payload) < 8:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "GOAWAY of a wrong size")
        self._count_idle()

    def _window_update(self, flags: int, number: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "WINDOW_UPDATE of a wrong size")
        size = UINT32.unpack(payload)[0] & WINDOW_MAX
        self._count_idle()
        if not number:
            if not size:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "WINDOW_UPDATE by nothing")
            self._send_window += size
            if self._send_window > WINDOW_MAX:
                raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "too large a window")
        else:
            if number > self.last_stream and not self._came_late(number):
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "the window of an idle stream")
            stream = self.streams.get(number)
            if stream is None:
                return
            if not size:
                raise StreamFault(ErrorCode.PROTOCOL_ERROR, "WINDOW_UPDATE by nothing")
            stream.send_window += size
            if stream.send_window > WINDOW_MAX:
                raise StreamFault(ErrorCode.FLOW_CONTROL_ERROR, "too large a window")
        if self._waiting:
            self.pump()

    # --- floods

    def _flood(self, name: str, limit: int) -> Flood:
        return Flood(name, limit, self._limits.flood_window_s, self._monotonic)

    def _count_idle(self) -> None:
        if self._idles is None:
            name = "frames without a request"
            self._idles = self._flood(name, self._limits.idle_frames_max)
        self._idles.count()

    def _count_empty(self) -> None:
        if self._empties is None:
            self._empties = self._flood("empty DATA frames", self._limits.empty_max)
        self._empties.count()

    def _count_reset(self) -> None:
        if self._resets is None:
            self._resets = self._flood("resets", self._limits.resets_max)
        self._resets.count()

    # --- what this side sends

    def headers(self, stream: Stream, block: bytes) -> None:
        """Begins an answer."""
        self.out.append(frames.frame(frames.HEADERS, END_HEADERS, stream.id, block))

    def answer(self, stream: Stream, block: bytes, data: bytes, trailers: bytes) -> None:
        """Sends a whole answer: its fields, data and trailers."""
        size = len(data)
        number = stream.id
        if (
            size <= FRAME_SIZE_MAX
            and size <= stream.send_window
            and size <= self._send_window
            and not self.is_held
            and not stream.queue
        ):
            self._send_window -= size
            pack = frames.HEAD.pack
            block_size, trailers_size = len(block), len(trailers)
            self.out.append(
                b"".join(
                    (
                        pack(block_size >> 8, block_size & 0xFF, 1, END_HEADERS, number),
                        block,
                        pack(size >> 8, size & 0xFF, 0, 0, number),
                        data,
                        pack(trailers_size >> 8, trailers_size & 0xFF, 1, 5, number),
                        trailers,
                    )
                )
            )
            self._finish(stream)
            return
        self.headers(stream, block)
        self.send(stream, data)
        self.finish(stream, trailers)

    def send(self, stream: Stream, data: bytes) -> None:
        """Queues data of an answer, and sends what the windows allow."""
        if stream.queue is None:
            stream.queue = deque()
        stream.queue.append(data)
        stream.queued_size += len(data)
        self.queued_size += len(data)
        self._waiting[stream.id] = stream
        self.pump()
        if self.queued_size > self._limits.output_max:
            self.end(
                ConnectionFault(
                    ErrorCode.ENHANCE_YOUR_CALM,
                    f"more than {self._limits.output_max} bytes of answers are not taken",
                )
            )

    def finish(self, stream: Stream, trailers: bytes) -> None:
        """Ends an answer with trailers, when its queued data has left.

        Args:
            stream: of the answer.
            trailers: the encoded block; empty to end with an empty DATA frame.
        """
        if self.streams.get(stream.id) is not stream:
            return
        if stream.queue:
            stream.trailers = trailers
            return
        if trailers:
            flags = END_HEADERS | END_STREAM
            self.out.append(frames.frame(frames.HEADERS, flags, stream.id, trailers))
        else:
            self.out.append(frames.frame(frames.DATA, END_STREAM, stream.id))
        self._finish(stream)

    def _finish(self, stream: Stream) -> None:
        if not stream.is_remote_closed:  # the rest of the request is not wanted
            self.out.append(frames.reset(stream.id, ErrorCode.NO_ERROR))
            self._remember_reset(stream.id)
        self._drop(stream)
        self._events.on_closed(stream, None)

    def reset(self, number: int, code: ErrorCode) -> None:
        """Ends a stream at once, and tells the peer why."""
        self.out.append(frames.reset(number, code))
        self._remember_reset(number)
        stream = self.streams.get(number)
        if stream is not None:
            self._drop(stream)
            self._events.on_closed(stream, code)
        if code is not ErrorCode.CANCEL:
            self._count_reset()

    def _remember_reset(self, number: int) -> None:
        if len(self._reset) >= RESETS_REMEMBERED:
            del self._reset[next(iter(self._reset))]
        self._reset[number] = None

    def _drop(self, stream: Stream) -> None:
        self.streams.pop(stream.id, None)
        if stream.queue:
            self._waiting.pop(stream.id, None)
            self.queued_size -= stream.queued_size
            stream.queue.clear()
            stream.queued_size = 0

    def take(self) -> bytes:
        """Hands out what is to be sent to the peer now."""
        data = self.out[0] if len(self.out) == 1 else b"".join(self.out)
        self.out.clear()
        self._out_size = 0
        return bytes(data)

    def pump(self) -> None:
        """Puts queued data into `out`, a frame of each stream in turn, as the windows allow."""
        room = OUTPUT_AT_ONCE - self._out_size
        while not self.is_held and self._waiting and room > 0 and self._send_window > 0:
            moved = 0
            for stream in list(self._waiting.values()):
                moved += self._pump_stream(stream)
                if moved >= room or self._send_window <= 0:
                    break
            if not moved:
                return
            self._out_size += moved
            room -= moved

    def _pump_stream(self, stream: Stream) -> int:
        """Sends one frame of a stream; returns its size."""
        queue = stream.queue
        size = min(stream.queued_size, stream.send_window, self._send_window, FRAME_SIZE_MAX)
        if size <= 0 or not queue:
            return 0
        del self._waiting[stream.id]  # it goes to the end of the line
        self.out.append(frames.head(size, frames.DATA, 0, stream.id))
        left = size
        while left:
            part = queue.popleft()
            if len(part) > left:
                view = memoryview(part)
                queue.appendleft(view[left:])
                part = view[:left]
            self.out.append(part)
            left -= len(part)
        stream.send_window -= size
        self._send_window -= size
        stream.queued_size -= size
        self.queued_size -= size
        if self._idles is not None:
            self._idles.forgive()
        if queue:
            self._waiting[stream.id] = stream
        elif stream.trailers is not None:
            self.finish(stream, stream.trailers)
            return size
        self._events.on_drained(stream)
        return size

    # --- the end

    def shut_down(self) -> None:
        """Tells the peer to begin nothing more; open streams go on."""
        if self._closing_at is None and not self.is_over:
            self._closing_at = self.last_stream
            self.out.append(frames.goaway(self.last_stream, ErrorCode.NO_ERROR))

    def end(self, fault: ConnectionFault) -> None:
        """Ends the connection: the last thing in `out` is the GOAWAY frame."""
        if self.is_over:
            return
        self.is_over, self.fault, self._rest, self._block = True, fault, b"", None
        self.out.append(frames.goaway(self.last_stream, fault.code, str(fault)))
        self.lost()

    def lost(self) -> None:
        """Ends all streams, without a word to the peer."""
        self.is_over = True
        for stream in list(self.streams.values()):
            self._drop(stream)
            self._events.on_closed(stream, ErrorCode.CANCEL)


_CONTROLS: dict[int, Callable[[Http2Connection, int, int, bytes], None]] = {
    frames.PRIORITY: Http2Connection._priority,
    frames.RST_STREAM: Http2Connection._rst_stream,
    frames.SETTINGS: Http2Connection._settings_frame,
    frames.PUSH_PROMISE: Http2Connection._push_promise,
    frames.PING: Http2Connection._ping,
    frames.GOAWAY: Http2Connection._goaway,
    frames.WINDOW_UPDATE: Http2Connection._window_update,
    frames.CONTINUATION: Http2Connection._continuation,
}
