# Invariant: whatever bytes arrive, in whatever pieces, the parser returns commands or raises
# FrameError, never another exception; what it holds stays below one frame and one chunk; and
# a command that it returned can be read, or refused with ContentError, and answered.

from __future__ import annotations

import contextlib
import json
import random
import struct
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pocketmq.protocol.errors import ContentError, FrameError
from pocketmq.protocol.requests.pulling import PullMessageRequest
from pocketmq.protocol.requests.sending import SendMessageResponse, SendMessageV2Request
from pocketmq.protocol.wire import frames
from pocketmq.protocol.wire.command import Command

ROUNDS = 5000
FRAME_SIZE_MAX = 4096
CHUNK_SIZE_MAX = 600

GOLDEN = [
    bytes.fromhex(frame["hex"])
    for frame in json.loads(
        (Path(__file__).parents[1] / "wire" / "golden" / "frames.json").read_text(encoding="utf-8")
    )
    if frame["body_size"] < 2000
]
OWN = [
    frames.encode(
        Command(
            310,
            7,
            body=b"hello",
            remark="remark",
            codec=codec,
            header=SendMessageV2Request(
                producer_group="PG", topic="T", queue_id=1, born_timestamp=2, unit_mode=False
            ),
            extra={"pocketmq": "1"},
        )
    )
    for codec in (0, 1, 0x50)
]


def noise(chance: random.Random) -> bytes:
    return chance.randbytes(chance.randrange(400))


def framed_noise(chance: random.Random) -> bytes:
    """A sound frame with a header that is not, so that the codecs are reached."""
    header, body = chance.randbytes(chance.randrange(80)), chance.randbytes(chance.randrange(20))
    codec = chance.choice((0, 1, 0x50))
    size = 4 + len(header) + len(body)
    return (
        size.to_bytes(4, "big") + bytes((codec,)) + len(header).to_bytes(3, "big") + header + body
    )


def sound(chance: random.Random) -> bytes:
    return b"".join(chance.choices(GOLDEN + OWN * 8, k=chance.randrange(1, 5)))


def damaged(chance: random.Random) -> bytes:
    """Sound frames with a few bytes changed, lost or doubled."""
    stream = bytearray(sound(chance))
    for _ in range(chance.randrange(1, 6)):
        at = chance.randrange(len(stream))
        kind = chance.randrange(4)
        if kind == 0:
            stream[at] = chance.randrange(256)
        elif kind == 1:
            stream[at] ^= 1 << chance.randrange(8)
        elif kind == 2:
            del stream[at : at + chance.randrange(1, 9)]
        else:
            stream[at:at] = stream[at : at + chance.randrange(1, 9)]
        if not stream:
            break
    return bytes(stream)


def altered_header(chance: random.Random) -> bytes:
    """One byte of one header changed while all lengths stay true."""
    stream = bytearray(chance.choice(OWN * 8 + GOLDEN))
    header_size = int.from_bytes(stream[5:8], "big")
    if header_size:
        stream[8 + chance.randrange(header_size)] = chance.randrange(256)
    return bytes(stream)


def pieces(stream: bytes, chance: random.Random) -> Iterator[bytes]:
    at = 0
    while at < len(stream):
        size = chance.choice((1, 2, 7, 8, 100, CHUNK_SIZE_MAX))
        yield stream[at : at + size]
        at += size


def read_all(stream: bytes, chance: random.Random) -> tuple[list[Command], bool]:
    """The commands of a stream, and whether it was refused."""
    parser, commands = frames.FrameParser(FRAME_SIZE_MAX), []
    for piece in pieces(stream, chance):
        parser.feed(piece)
        try:
            while (command := parser.next_command()) is not None:
                commands.append(command)
        except FrameError:
            return commands, True
        assert parser.buffered_size <= FRAME_SIZE_MAX + CHUNK_SIZE_MAX
    return commands, False


def use(command: Command) -> None:
    """What a server does with a command, whatever it is."""
    for cls in (SendMessageV2Request, PullMessageRequest, SendMessageResponse):
        try:
            command.read(cls)
        except ContentError:
            continue
    with contextlib.suppress(ContentError):
        assert isinstance(command.fields, dict)
    answer = Command(3, command.opaque, 1, remark="no", codec=command.codec)
    assert frames.encode(answer)
    assert repr(command)


@pytest.mark.parametrize("make", [noise, framed_noise, sound, damaged, altered_header])
def test_any_stream_gives_commands_or_a_frame_error(
    make: Callable[[random.Random], bytes], seed: int
) -> None:
    chance = random.Random(f"{seed}-{make.__name__}")
    refused = 0
    for _ in range(ROUNDS if make is not sound else ROUNDS // 10):
        stream = make(chance)
        commands, is_refused = read_all(stream, chance)
        refused += is_refused
        for command in commands:
            use(command)
        if make is sound:
            assert not is_refused
            assert commands
    assert refused or make is sound


def test_the_same_commands_however_the_stream_is_cut(chance: random.Random) -> None:
    for _ in range(100):
        stream = damaged(chance)
        first, first_refused = read_all(stream, chance)
        second, second_refused = read_all(stream, chance)
        assert first_refused == second_refused
        assert [(c.code, c.opaque, c.body) for c in first] == [
            (c.code, c.opaque, c.body) for c in second
        ]


def test_memory_stays_bounded_whatever_is_announced(chance: random.Random) -> None:
    """A peer that announces much and sends little costs what it sent."""
    tracemalloc.start()
    try:
        parsers = []
        for _ in range(200):
            parser = frames.FrameParser()
            parser.feed((frames.FRAME_SIZE_MAX - 4).to_bytes(4, "big") + bytes(4))
            assert parser.next_command() is None
            parser.feed(chance.randbytes(50))
            assert parser.next_command() is None
            parsers.append(parser)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 200 * 1000


@pytest.mark.parametrize(
    "header",
    [
        b"\xdd\x00\x0f\xff\xff" + b"\xc0" * 0xFFFFF,  # a million nulls
        b"\x97" + b"\x90" * 7,
        b"\x97\x01\x02\x03\x04\x05\xc0\xdf\x00\x03\xff\xff" + b"\xa1k\xc0" * 0x3FFFF,
    ],
)
def test_a_small_msgpack_header_does_not_become_a_large_object(header: bytes) -> None:
    frame = struct.pack(">ii", 4 + len(header), 0x50 << 24 | len(header)) + header
    parser = frames.FrameParser()
    parser.feed(frame)
    tracemalloc.start()
    try:
        with pytest.raises(FrameError):
            parser.next_command()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2 * len(frame) + 10_000
