from __future__ import annotations

import struct

import pytest
from hypothesis import given
from support.protocol.strategies import commands, essence

from pocketmq.protocol.errors import ContentError, FrameError, UsageError
from pocketmq.protocol.requests.nameserver import RouteRequest
from pocketmq.protocol.wire.codecs import binary
from pocketmq.protocol.wire.command import Codec, Command


@given(commands(Codec.BINARY))
def test_round_trip(sent: Command) -> None:
    read = binary.decode(binary.encode(sent), sent.body)
    assert essence(read) == essence(sent)
    # RocketMQ reads an empty value back as null.
    assert read.fields == {k: v for k, v in sent.fields.items() if v}
    if sent.header is not None:
        assert read.read(type(sent.header)) == sent.header
    if "" not in sent.fields.values():
        assert binary.encode(read) == binary.encode(sent)


@given(commands(Codec.BINARY))
def test_every_cut_is_found(sent: Command) -> None:
    header = binary.encode(sent)
    for size in range(len(header)):
        with pytest.raises(FrameError):
            binary.decode(header[:size], b"")


def test_headers_of_one_size_are_told_apart() -> None:
    """The decoder remembers where values stood in headers of a size."""
    forms = [
        {"topic": "TopicA", "queueId": "10"},
        {"topic": "Topic", "queueId": "110"},
        {"queueId": "1", "topic": "TopicAB"},
        {"tepic": "TopicA", "queueId": "10"},
        {"topic": "TopicA", "queueI": "100"},
        {"topic": "TopéA", "queueId": "10"},
    ]
    headers = [binary.encode(Command(1, extra=form)) for form in forms]
    assert len({len(header) for header in headers}) == 1
    for _ in range(3 * binary._MISSES_MAX):
        for form, header in zip(forms, headers, strict=True):
            assert binary.decode(header, b"").fields == form
            assert binary.decode(header, b"").fields == form


def test_what_is_remembered_of_headers_is_bounded() -> None:
    before = set(binary._LAYOUTS)
    large = binary.encode(Command(1, extra={"k": "v" * binary._LAYOUT_SIZE_MAX}))
    for _ in range(2):
        assert len(binary.decode(large, b"").fields["k"]) == binary._LAYOUT_SIZE_MAX
    assert set(binary._LAYOUTS) == before


def test_text_that_is_no_utf_8_is_found_in_a_known_layout_too() -> None:
    header = binary.encode(Command(1, extra={"name-of-its-own": "value"}))
    binary.decode(header, b"")
    with pytest.raises(FrameError, match="the binary header cannot be read"):
        binary.decode(header.replace(b"value", b"val\xffe"), b"")


def test_an_empty_value_is_an_absent_one() -> None:
    read = binary.decode(binary.encode(Command(105, extra={"topic": "", "x": "y"})), b"")
    assert read.fields == {"x": "y"}
    with pytest.raises(ContentError, match="`topic`"):
        read.read(RouteRequest)


def test_an_empty_remark_is_an_absent_one() -> None:
    assert binary.decode(binary.encode(Command(1, remark="")), b"").remark is None


def test_negative_lengths_of_remark_and_fields_mean_absent() -> None:
    """As in the real decoder, which asks for lengths above zero."""
    header = struct.pack(">hbhiiii", 1, 0, 513, 7, 0, -1, -1)
    command = binary.decode(header, b"")
    assert (command.remark, command.fields) == (None, {})


@pytest.mark.parametrize(
    "tail",
    [
        struct.pack(">i", 1000),  # a remark longer than the header
        struct.pack(">ii", 0, 1000),  # fields longer than the header
        struct.pack(">iih", 0, 2, 5),  # a name that ends outside
        struct.pack(">iih", 0, 2, -5),  # a name of negative length
        struct.pack(">iihci", 0, 7, 1, b"k", -1),  # a value of negative length
        struct.pack(">iihci", 0, 7, 1, b"k", 1),  # a value that is not there
        struct.pack(">iih", 0, 2, 0),  # a name without a value
        struct.pack(">ic", 1, b"\xff") + bytes(4),  # a remark that is no text
        struct.pack(">iihcic", 0, 8, 1, b"\xff", 1, b"v"),  # a name that is no text
        struct.pack(">iihcic", 0, 8, 1, b"k", 1, b"\xff"),  # a value that is no text
    ],
)
def test_a_garbled_header_is_refused(tail: bytes) -> None:
    with pytest.raises(FrameError, match="the binary header"):
        binary.decode(struct.pack(">hbhii", 1, 0, 513, 7, 0) + tail, b"")


@pytest.mark.parametrize("code", [200_050, -40_000])
def test_codes_of_more_than_16_bits_need_another_codec(code: int) -> None:
    with pytest.raises(UsageError, match=f"code {code} needs the JSON header"):
        binary.encode(Command(code))


def test_a_name_of_more_than_15_bits_is_refused() -> None:
    with pytest.raises(UsageError, match="a field name of 40000 bytes, the limit is 32767"):
        binary.encode(Command(1, extra={"k" * 40_000: "v"}))


def test_a_command_of_another_codec_is_written_as_text() -> None:
    command = Command(1, raw={"flag": True, "count": 3, "gone": None})
    read = binary.decode(binary.encode(command), b"")
    assert read.fields == {"flag": "true", "count": "3"}
