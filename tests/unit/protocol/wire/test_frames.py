from __future__ import annotations

import random
import struct
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.protocol.strategies import commands, essence

from pocketmq.protocol.errors import FrameError, MessageSizeError
from pocketmq.protocol.requests.nameserver import RouteRequest
from pocketmq.protocol.wire import frames
from pocketmq.protocol.wire.command import Codec, Command
from pocketmq.protocol.wire.frames import FRAME_SIZE_MAX, FrameParser

ROUTE_REQUEST_JSON = bytes.fromhex(
    "0000008400000080"
    "7b22636f6465223a3130352c226578744669656c6473223a7b22746f706963223a22546f70696341227d2c22666c61"
    "67223a302c226c616e6775616765223a224a415641222c226f7061717565223a372c2273657269616c697a65547970"
    "6543757272656e74525043223a224a534f4e222c2276657273696f6e223a3531337d"
)
ROUTE_REQUEST_BINARY = bytes.fromhex(
    "0000002a010000260069000201000000070000000000000000000000110005746f70696300000006546f70696341"
)
RESPONSE_BINARY = bytes.fromhex(
    "0000001f0100001900110002010000000700000001000000046e6f6e65000000006869"
)


def parse(*chunks: bytes) -> list[Command]:
    parser = FrameParser()
    out = []
    for chunk in chunks:
        parser.feed(chunk)
        while (command := parser.next_command()) is not None:
            out.append(command)
    assert parser.buffered_size == 0
    return out


@pytest.mark.parametrize("looks", [True, False])
@pytest.mark.parametrize("seed", range(40))
def test_large_frames_are_whole_wherever_the_stream_is_cut(seed: int, looks: bool) -> None:
    """With and without a look between two chunks: a held connection is fed without one."""
    chance = random.Random(seed)
    large = frames.LARGE_FRAME_SIZE
    bodies = [
        chance.randbytes(chance.choice([0, 9, large - 50, large, 2 * large + 7])) for _ in range(4)
    ]
    stream = b"".join(frames.encode(Command(1, i, body=body)) for i, body in enumerate(bodies))
    parser = FrameParser()
    found: list[bytes] = []
    at = 0
    while at < len(stream):
        size = chance.choice([1, 5, 60, 1000, 100_000, 262_144, 300_000])
        parser.feed(stream[at : at + size])
        at += size
        while (looks or at >= len(stream)) and (command := parser.next_command()) is not None:
            assert command.opaque == len(found)
            found.append(command.body)
    assert found == bodies
    assert (parser.buffered_size, parser.missing_size) == (0, 0)


def receive(parser: FrameParser, stream: bytes, chance: random.Random) -> list[Command]:
    """Takes a stream as a connection does that receives large frames in their places."""
    commands = []
    at = 0
    is_placing = False
    while at < len(stream):
        size = chance.choice([1, 60, 1000, 100_000, 262_144])
        if is_placing:
            place = parser.place_left
            size = min(size, len(place), len(stream) - at)
            place[:size] = stream[at : at + size]
            parser.placed(size)
        else:
            parser.feed(stream[at : at + size])
        at += size
        while (command := parser.next_command()) is not None:
            commands.append(command)
            is_placing = False
        if not is_placing and chance.random() < 0.9:
            is_placing = parser.make_place()
    return commands


@pytest.mark.parametrize("fed_in_place", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_large_frames_are_whole_in_their_places(seed: int, fed_in_place: bool) -> None:
    """Also when what belongs into a place comes through `feed`, with what lies behind it."""
    chance = random.Random(seed)
    large = frames.LARGE_FRAME_SIZE
    bodies = [chance.randbytes(chance.choice([0, 9, large, 300_000])) for _ in range(8)]
    stream = b"".join(frames.encode(Command(1, i, body=body)) for i, body in enumerate(bodies))
    parser = FrameParser(view_codes={1} if chance.random() < 0.5 else ())
    if fed_in_place:
        commands = []
        for at in range(0, len(stream), 70_000):
            parser.feed(stream[at : at + 70_000])
            while (command := parser.next_command()) is not None:
                commands.append(command)
            parser.make_place()
    else:
        commands = receive(parser, stream, chance)
    assert [c.opaque for c in commands] == list(range(len(bodies)))
    assert [bytes(c.body) for c in commands] == bodies
    assert (parser.buffered_size, parser.missing_size) == (0, 0)


def test_there_is_no_place_for_a_frame_that_is_small_or_has_no_header_yet() -> None:
    frame = frames.encode(Command(1, body=bytes(frames.LARGE_FRAME_SIZE)))
    small = frames.encode(Command(1, body=bytes(100)))
    for begun in (b"", frame[:4], frame[:20], frame[:-100], small[:-1]):
        parser = FrameParser()
        parser.feed(begun)
        assert parser.next_command() is None
        assert not parser.make_place()
        assert parser.buffered_size == len(begun)


def test_a_frame_in_its_place_counts_what_has_come_of_it() -> None:
    frame = frames.encode(Command(1, body=bytes(200_000)))
    parser = FrameParser()
    parser.feed(frame[:50_000])
    assert parser.next_command() is None
    assert parser.make_place()
    assert (parser.buffered_size, parser.missing_size) == (50_000, len(frame) - 50_000)
    parser.placed(40_000)
    assert (parser.buffered_size, parser.missing_size) == (90_000, len(frame) - 90_000)


@pytest.mark.parametrize("is_cut", [False, True])
def test_only_requests_of_the_named_codes_get_views(is_cut: bool) -> None:
    body = bytes(2 * frames.LARGE_FRAME_SIZE)
    sent = [Command(1, body=body), Command(2, body=body), Command(1, flag=1, body=body)]
    kinds = []
    for command in sent:
        parser = FrameParser(view_codes={1})
        frame = frames.encode(command)
        if is_cut:
            parser.feed(frame[:1000])
            assert parser.next_command() is None
            assert parser.make_place()
            frame = frame[1000:]
        parser.feed(frame)
        received = parser.next_command()
        assert received is not None
        assert bytes(received.body) == body
        kinds.append(type(received.body))
    assert kinds == [memoryview, bytes, bytes]


def route_request(codec: Codec) -> Command:
    return Command(105, 7, language=0, codec=codec, header=RouteRequest(topic="TopicA"))


def test_writes_the_json_frame_of_the_real_client() -> None:
    assert frames.encode(route_request(Codec.JSON)) == ROUTE_REQUEST_JSON


def test_writes_the_binary_frame_of_the_real_client() -> None:
    assert frames.encode(route_request(Codec.BINARY)) == ROUTE_REQUEST_BINARY


def test_writes_the_binary_response_of_the_real_server() -> None:
    response = Command(17, 7, 1, b"hi", "none", 0, codec=Codec.BINARY)
    assert frames.encode(response) == RESPONSE_BINARY


@pytest.mark.parametrize("frame", [ROUTE_REQUEST_JSON, ROUTE_REQUEST_BINARY])
def test_reads_the_frames_of_the_real_client(frame: bytes) -> None:
    (command,) = parse(frame)
    assert (command.code, command.opaque, command.flag, command.language) == (105, 7, 0, 0)
    assert command.version == 513
    assert command.fields == {"topic": "TopicA"}
    assert command.read(RouteRequest) == RouteRequest(topic="TopicA")


def test_reads_the_response_of_the_real_server() -> None:
    (command,) = parse(RESPONSE_BINARY)
    assert (command.code, command.remark, command.body) == (17, "none", b"hi")
    assert command.is_response
    assert not command.is_oneway


@given(st.lists(commands(), max_size=6), st.randoms(use_true_random=False))
def test_any_cut_of_the_stream_gives_the_same_commands(
    sent: list[Command], chance: random.Random
) -> None:
    stream = b"".join(map(frames.encode, sent))
    cuts = sorted(chance.randrange(len(stream) + 1) for _ in range(8))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    whole = [essence(c) for c in sent]
    assert [essence(c) for c in parse(stream)] == whole
    assert [essence(c) for c in parse(*pieces)] == whole
    assert [essence(c) for c in parse(*(stream[i : i + 1] for i in range(len(stream))))] == whole


def test_chunks_may_be_fed_before_commands_are_taken() -> None:
    parser = FrameParser()
    stream = ROUTE_REQUEST_JSON * 3 + ROUTE_REQUEST_BINARY
    for start in range(0, len(stream), 100):
        parser.feed(stream[start : start + 100])
    codecs = []
    while (command := parser.next_command()) is not None:
        codecs.append(command.codec)
    assert codecs == [0, 0, 0, 1]


def test_a_large_frame_in_tiny_chunks_takes_little_more_than_its_size() -> None:
    body = bytes(400_000)
    frame = frames.encode(Command(0, body=body))
    parser = FrameParser()
    tracemalloc.start()
    try:
        for start in range(0, len(frame), 2):
            parser.feed(frame[start : start + 2])
            command = parser.next_command()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert command is not None
    assert command.body == body
    assert peak < 4 * len(frame)


def test_an_idle_parser_keeps_nothing() -> None:
    parser = FrameParser()
    parser.feed(frames.encode(Command(0, body=bytes(1_000_000))))
    tracemalloc.start()
    try:
        parser.next_command()
        assert parser.next_command() is None
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 10_000


@pytest.mark.parametrize("size", [-1, -0x8000_0000, 0, 3, FRAME_SIZE_MAX - 3, 0x7FFF_FFFF])
def test_refuses_a_length_that_no_frame_has(size: int) -> None:
    parser = FrameParser()
    parser.feed(struct.pack(">ii", size, 0))
    with pytest.raises(FrameError, match=f"announces {size} bytes, allowed are 4 to 16777212"):
        parser.next_command()


def test_waits_for_the_largest_frame() -> None:
    parser = FrameParser()
    parser.feed(struct.pack(">ii", FRAME_SIZE_MAX - 4, 100))
    assert parser.next_command() is None


def test_refuses_a_header_longer_than_its_frame() -> None:
    parser = FrameParser()
    parser.feed(struct.pack(">ii", 10, 7) + bytes(6))
    with pytest.raises(FrameError, match="a frame of 10 bytes announces a header of 7"):
        parser.next_command()


@pytest.mark.parametrize("codec", [2, 0x4F, 0x80, 0xFF])
def test_refuses_an_unknown_codec(codec: int) -> None:
    parser = FrameParser()
    parser.feed(struct.pack(">iI", 4, codec << 24))
    with pytest.raises(FrameError, match=f"unknown header codec {codec}"):
        parser.next_command()


def test_says_what_may_be_wrong_when_another_protocol_knocks() -> None:
    parser = FrameParser()
    parser.feed(b"GET / HTTP/1.1\r\n\r\n")
    with pytest.raises(FrameError, match="is the peer speaking RocketMQ's remoting protocol"):
        parser.next_command()


def test_the_limit_can_be_set() -> None:
    parser = FrameParser(frame_size_max=100)
    parser.feed(struct.pack(">ii", 97, 0))
    with pytest.raises(FrameError, match="allowed are 4 to 96"):
        parser.next_command()


def test_writes_the_largest_frame_and_no_larger_one() -> None:
    head = len(frames.encode(Command(0)))
    frame = frames.encode(Command(0, body=bytes(FRAME_SIZE_MAX - head)))
    assert len(frame) == FRAME_SIZE_MAX
    assert len(parse(frame)) == 1
    with pytest.raises(MessageSizeError, match=f"the limit is {FRAME_SIZE_MAX}"):
        frames.encode(Command(0, body=bytes(FRAME_SIZE_MAX - head + 1)))
