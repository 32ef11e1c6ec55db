from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest
from hpack import Encoder
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketmq.testing.clock import VirtualClock
from pocketmq.transport.http2 import frames
from pocketmq.transport.http2.connection import Http2Connection
from pocketmq.transport.http2.frames import ErrorCode
from pocketmq.transport.http2.header_blocks import Fields, encode_block
from pocketmq.transport.http2.limits import Http2Limits
from pocketmq.transport.http2.stream import Stream

FIELDS = [(":method", "POST"), (":scheme", "http"), (":path", "/s/M"), (":authority", "a")]
BLOCK = encode_block(FIELDS)
CALM = ErrorCode.ENHANCE_YOUR_CALM
END, ALL = frames.END_STREAM, frames.END_STREAM | frames.END_HEADERS


class Peer:
    """A client without a network, and what the server's side told its owner."""

    def __init__(self, limits: Http2Limits | None = None) -> None:
        self.clock = VirtualClock()
        self.requests: list[Fields] = []
        self.data: list[tuple[int, bytes, bool]] = []
        self.closed: list[tuple[int, ErrorCode | None]] = []
        self.drained = 0
        self.side = Http2Connection(self, limits or Http2Limits(), self.clock.monotonic)
        self.encoder = Encoder()
        self.send(frames.PREFACE + frames.settings({}))

    def on_request(self, stream: Stream, fields: Fields) -> None:
        self.requests.append(fields)

    def on_data(self, stream: Stream, data: bytes, is_end: bool) -> None:
        self.data.append((stream.id, data, is_end))

    def on_drained(self, stream: Stream) -> None:
        self.drained += 1

    def on_closed(self, stream: Stream, code: ErrorCode | None) -> None:
        self.closed.append((stream.id, code))

    def send(self, data: bytes) -> list[tuple[int, int, int, bytes]]:
        self.side.receive(data)
        return self.answers()

    def answers(self) -> list[tuple[int, int, int, bytes]]:
        """What the server's side has to say: kind, flags, stream and payload."""
        return list(cut(self.side.take()))

    def call(self, number: int, flags: int = frames.END_HEADERS) -> Stream:
        self.send(frames.frame(frames.HEADERS, flags, number, BLOCK))
        return self.side.streams[number]


def cut(data: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    while data:
        high, low, kind, flags, number = frames.HEAD.unpack_from(data)
        end = 9 + (high << 8 | low)
        yield kind, flags, number, data[9:end]
        data = data[end:]


def goaway_code(answers: list[tuple[int, int, int, bytes]]) -> int:
    kind, _, _, payload = answers[-1]
    assert kind == frames.GOAWAY
    code: int = struct.unpack_from(">I", payload, 4)[0]
    return code


def test_an_answer_leaves_as_one_part() -> None:
    peer = Peer()
    stream = peer.call(1)
    peer.send(frames.frame(frames.DATA, END, 1, b"question"))
    assert peer.data == [(1, b"question", True)]
    peer.side.answer(stream, b"\x88", b"answer", b"\x89")
    assert len(peer.side.out) == 1
    assert peer.answers() == [
        (frames.HEADERS, frames.END_HEADERS, 1, b"\x88"),
        (frames.DATA, 0, 1, b"answer"),
        (frames.HEADERS, ALL, 1, b"\x89"),
    ]
    assert peer.closed == [(1, None)]
    assert not peer.side.streams


def test_bytes_one_by_one_are_the_same() -> None:
    peer = Peer()
    data = frames.frame(frames.HEADERS, frames.END_HEADERS, 1, BLOCK)
    for byte in data + frames.frame(frames.DATA, END, 1, b"question"):
        peer.send(bytes((byte,)))
    assert peer.data == [(1, b"question", True)]


def test_padding_priority_and_continuations() -> None:
    peer = Peer()
    start = b"\x02" + b"\0\0\0\0\x10" + BLOCK[:5] + b"\0\0"
    flags = frames.PADDED | frames.PRIORITY_FLAG
    peer.send(frames.frame(frames.HEADERS, flags, 1, start))
    peer.send(frames.frame(frames.CONTINUATION, 0, 1, BLOCK[5:9]))
    peer.send(frames.frame(frames.CONTINUATION, frames.END_HEADERS, 1, BLOCK[9:]))
    assert peer.requests == [[(n.encode(), v.encode()) for n, v in FIELDS]]
    peer.send(frames.frame(frames.DATA, END | frames.PADDED, 1, b"\x03data\0\0\0"))
    assert peer.data == [(1, b"data", True)]


def test_answers_wait_for_the_windows() -> None:
    peer = Peer()
    stream = peer.call(1, ALL)
    peer.side.answer(stream, b"\x88", b"x" * 100_000, b"\x89")
    sent = sum(len(payload) for kind, _, _, payload in peer.answers() if kind == frames.DATA)
    assert sent == frames.WINDOW_DEFAULT
    assert peer.side.queued_size == 100_000 - sent
    assert peer.send(frames.window_update(1, 100_000)) == []
    rest = peer.send(frames.window_update(0, 100_000))
    assert sum(len(one[3]) for one in rest if one[0] == frames.DATA) == 100_000 - sent
    assert rest[-1] == (frames.HEADERS, ALL, 1, b"\x89")
    assert peer.side.queued_size == 0
    assert peer.closed[-1] == (1, None)


def test_a_changed_initial_window_counts_for_open_streams() -> None:
    peer = Peer()
    stream = peer.call(1, ALL)
    peer.send(frames.settings({frames.INITIAL_WINDOW_SIZE: 1}))
    peer.side.answer(stream, b"\x88", b"abc", b"\x89")
    assert peer.answers()[-1] == (frames.DATA, 0, 1, b"a")
    assert peer.send(frames.settings({frames.INITIAL_WINDOW_SIZE: 3}))[1] == (
        frames.DATA,
        0,
        1,
        b"bc",
    )


def test_windows_of_requests_are_given_back_as_they_are_consumed() -> None:
    peer = Peer(Http2Limits(stream_window=40_000, connection_window=80_000))
    stream = peer.call(1)
    for _ in range(2):
        assert peer.send(frames.frame(frames.DATA, 0, 1, b"x" * 16_000)) == []
    peer.side.credit(stream, 32_000)
    assert peer.answers() == [(frames.WINDOW_UPDATE, 0, 1, struct.pack(">I", 32_000))]
    answers = peer.send(frames.frame(frames.DATA, 0, 1, b"x" * 16_000))
    assert answers == [(frames.WINDOW_UPDATE, 0, 0, struct.pack(">I", 48_000))]


def test_a_peer_that_ignores_its_window_loses_the_stream() -> None:
    peer = Peer(Http2Limits(stream_window=20_000))
    peer.call(1)
    peer.send(frames.frame(frames.DATA, 0, 1, b"x" * 16_000))
    peer.send(frames.frame(frames.DATA, 0, 1, b"x" * 16_000))
    assert peer.closed == [(1, ErrorCode.FLOW_CONTROL_ERROR)]


def test_too_many_streams_are_refused_one_by_one() -> None:
    peer = Peer(Http2Limits(streams_max=2))
    for number in (1, 3):
        peer.call(number)
    answer = peer.send(frames.frame(frames.HEADERS, frames.END_HEADERS, 5, BLOCK))
    assert answer == [(frames.RST_STREAM, 0, 5, struct.pack(">I", ErrorCode.REFUSED_STREAM))]
    assert set(peer.side.streams) == {1, 3}


def test_what_comes_after_a_reset_is_passed_over() -> None:
    peer = Peer()
    peer.call(1)
    peer.side.reset(1, ErrorCode.CANCEL)
    peer.answers()
    assert peer.send(frames.frame(frames.DATA, 0, 1, b"late")) == []
    assert peer.send(frames.frame(frames.HEADERS, ALL, 1, BLOCK)) == []


def test_shutting_down_ends_nothing_that_has_begun() -> None:
    peer = Peer()
    stream = peer.call(1)
    peer.side.shut_down()
    assert peer.answers()[0][0] == frames.GOAWAY
    peer.send(frames.frame(frames.HEADERS, ALL, 3, BLOCK))
    assert len(peer.requests) == 1
    peer.send(frames.frame(frames.DATA, END, 1, b"question"))
    peer.side.answer(stream, b"\x88", b"answer", b"\x89")
    assert peer.closed == [(1, None)]


def test_a_peer_that_takes_no_answers_is_cut_off() -> None:
    peer = Peer(Http2Limits(output_max=1_000_000))
    stream = peer.call(1, ALL)
    while not peer.side.is_over:
        peer.side.send(stream, b"x" * 100_000)
    assert goaway_code(peer.answers()) == CALM
    assert peer.side.queued_size == 0


ATTACKS = {
    "rapid reset": b"".join(
        frames.frame(frames.HEADERS, frames.END_HEADERS, number, BLOCK)
        + frames.reset(number, ErrorCode.CANCEL)
        for number in range(1, 5001, 2)
    ),
    "made to reset": b"".join(
        frames.frame(frames.HEADERS, frames.END_HEADERS, number, BLOCK)
        + frames.window_update(number, 0)
        for number in range(1, 5001, 2)
    ),
    "continuations": frames.frame(frames.HEADERS, 0, 1, b"")
    + frames.frame(frames.CONTINUATION, 0, 1) * 10,
    "long block": frames.frame(frames.HEADERS, 0, 1, b"x" * 16_000)
    + frames.frame(frames.CONTINUATION, 0, 1, b"x" * 16_000),
    "settings": frames.settings({}) * 101,
    "pings": frames.frame(frames.PING, 0, 0, b"12345678") * 2001,
    "window updates": frames.window_update(0, 1) * 20_001,
    "priorities": frames.frame(frames.PRIORITY, 0, 1, b"\0\0\0\x09\0") * 20_001,
    "unknown frames": frames.frame(99, 0, 1, b"") * 20_001,
    "empty data": frames.frame(frames.HEADERS, frames.END_HEADERS, 1, BLOCK)
    + frames.frame(frames.DATA, 0, 1) * 1001,
    "padding alone": frames.frame(frames.HEADERS, frames.END_HEADERS, 1, BLOCK)
    + frames.frame(frames.DATA, frames.PADDED, 1, b"\x02\0\0") * 1001,
    "header bomb": frames.frame(
        frames.HEADERS, frames.END_HEADERS, 1, b"\x40\x01x\x7f\xa1\x17" + b"y" * 3104 + b"\xbe" * 99
    ),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_floods_end_the_connection(name: str) -> None:
    peer = Peer()
    peer.side.receive(ATTACKS[name])
    assert peer.side.is_over
    assert goaway_code(peer.answers()) == CALM
    assert not peer.side.streams


def test_a_busy_client_may_ping_after_each_answer() -> None:
    peer = Peer()
    ping = frames.frame(frames.PING, 0, 0, b"12345678")
    for number in range(1, 101, 2):
        peer.call(number)
        peer.side.receive(ping * 100)
    assert not peer.side.is_over


@pytest.mark.parametrize("size", [2**31 - 1, 0])
def test_window_tricks(size: int) -> None:
    peer = Peer()
    expected = ErrorCode.FLOW_CONTROL_ERROR if size else ErrorCode.PROTOCOL_ERROR
    assert goaway_code(peer.send(frames.window_update(0, size))) == expected
    peer = Peer()
    peer.call(1)
    assert peer.send(frames.window_update(1, size))[0][3] == struct.pack(">I", expected)
    assert peer.closed == [(1, expected)]


def test_what_is_no_http2_is_told_what_this_is() -> None:
    peer = Peer()
    peer.side = Http2Connection(peer, Http2Limits(), peer.clock.monotonic)
    answers = peer.send(b"GET / HTTP/1.1\r\n\r\n")
    assert b"this port speaks HTTP/2 (gRPC)" in answers[-1][3]


FRAME = st.builds(
    frames.frame,
    st.integers(0, 10),
    st.integers(0, 255),
    st.integers(0, 9),
    st.one_of(st.binary(max_size=60), st.just(BLOCK), st.just(b"\0\0\0\x01")),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(FRAME, max_size=20), st.data())
def test_no_frames_break_the_bookkeeping(sent: list[bytes], data: st.DataObject) -> None:
    peer = Peer()
    for one in sent:
        peer.send(one)
        is_answered = data.draw(st.booleans())
        if is_answered and peer.side.streams:
            stream = next(iter(peer.side.streams.values()))
            peer.side.answer(stream, b"\x88", b"x" * data.draw(st.integers(1, 99_999)), b"\x89")
    peer.side.lost()
    assert peer.side.queued_size == 0
    assert not peer.side.streams
    assert len(peer.closed) == len(peer.requests) == len({number for number, _ in peer.closed})
