from __future__ import annotations

from typing import Any

import pytest
from hpack import Decoder, Encoder, HPACKError
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.transport.http2.frames import ConnectionFault, ErrorCode, StreamFault
from pocketmq.transport.http2.header_blocks import (
    BlockDecoder,
    Fields,
    changes_no_table,
    check_request,
    check_trailers,
    encode_block,
)

REQUEST: Fields = [
    (b":method", b"POST"),
    (b":scheme", b"http"),
    (b":path", b"/s/M"),
    (b"te", b"trailers"),
]


def test_a_repeated_block_is_decoded_once_until_the_table_changes() -> None:
    encoder, decoder = Encoder(), BlockDecoder(1000)
    assert decoder.decode(encoder.encode(REQUEST)) == REQUEST
    repeated = encoder.encode(REQUEST)
    assert changes_no_table(repeated)
    first = decoder.decode(repeated)
    assert decoder.decode(encoder.encode(REQUEST)) is first
    other: Fields = [(b"x", b"y")]
    assert decoder.decode(encoder.encode(other)) == other
    again = decoder.decode(encoder.encode(REQUEST))
    assert again == REQUEST
    assert again is not first


def test_tables_forget_as_hpack_says() -> None:
    encoder, decoder = Encoder(), BlockDecoder(10_000)
    for number in range(300):
        fields: Fields = [(b"name-%d" % (number % 70), b"v" * (number % 90)), (b"same", b"1")]
        assert decoder.decode(encoder.encode(fields)) == fields
    encoder.header_table_size = 100
    small: Fields = [(b"name-1", b"v"), (b"same", b"1")]
    for _ in range(3):
        assert decoder.decode(encoder.encode(small)) == small


def test_an_answer_enters_no_table() -> None:
    fields = [("grpc-status", "0"), ("grpc-message", "x" * 300)]
    decoder = Decoder()
    decoded = decoder.decode(encode_block(fields))
    assert [(str(n), str(v)) for n, v in decoded] == fields
    assert not decoder.header_table.dynamic_entries


@pytest.mark.parametrize("block", [b"\x80", b"\xff\xff\xff\xff\xff\xff\xff", b"\xbf", b"\x40\x85a"])
def test_bad_blocks_are_compression_errors(block: bytes) -> None:
    with pytest.raises(ConnectionFault) as caught:
        BlockDecoder(1000).decode(block)
    assert caught.value.code is ErrorCode.COMPRESSION_ERROR


def test_a_bomb_of_references_is_refused() -> None:
    encoder, decoder = Encoder(), BlockDecoder(16_384)
    decoder.decode(encoder.encode([(b"x", b"y" * 3000)]))
    with pytest.raises(ConnectionFault, match="larger than 16384") as caught:
        decoder.decode(b"\xbe" * 10_000)
    assert caught.value.code is ErrorCode.ENHANCE_YOUR_CALM


def test_a_good_request() -> None:
    assert check_request(REQUEST) is None
    assert check_request([*REQUEST, (b"content-length", b"12")]) == 12


@pytest.mark.parametrize(
    "fields",
    [
        REQUEST[1:],
        [*REQUEST, (b":path", b"/late")],
        [*REQUEST[:3], (b":path", b"/twice")],
        [*REQUEST[:2], (b":path", b"")],
        [(b":status", b"200"), *REQUEST],
        [*REQUEST, (b"Upper", b"1")],
        [*REQUEST, (b"", b"1")],
        [*REQUEST, (b"connection", b"close")],
        [*REQUEST[:3], (b"te", b"gzip")],
        [*REQUEST, (b"content-length", b"-1")],
        [*REQUEST, (b"x", b"a\r\nb: c")],
    ],
)
def test_malformed_requests(fields: Fields) -> None:
    with pytest.raises(StreamFault):
        check_request(fields)


def test_trailers_have_no_pseudo_fields() -> None:
    check_trailers([(b"x", b"1")])
    with pytest.raises(StreamFault):
        check_trailers([(b":path", b"1")])


NAMES = st.sampled_from([b"x-a", b"x-b", b":path", b"content-type", b"authorization", b"x-long"])
VALUES = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=60).map(str.encode)
LISTS = st.lists(
    st.tuples(
        st.lists(st.tuples(NAMES, VALUES), min_size=1, max_size=8),
        st.booleans(),
        st.sampled_from([None, 0, 64, 200, 4096]),
        st.none() | st.tuples(st.integers(0, 200), st.integers(0, 255)),
    ),
    max_size=8,
)


@given(LISTS)
def test_blocks_mean_what_the_library_says(lists: Any) -> None:
    encoder, decoder, library = Encoder(), BlockDecoder(16_384), Decoder(16_384)
    for fields, huffman, table_size, damage in lists:
        if table_size is not None:
            encoder.header_table_size = table_size
        block = bytearray(encoder.encode(fields, huffman=huffman))
        if damage is not None:
            block[damage[0] % len(block)] = damage[1]
        try:
            wanted = [(bytes(n), bytes(v)) for n, v in library.decode(bytes(block), raw=True)]
        except (HPACKError, IndexError):
            with pytest.raises(ConnectionFault):
                decoder.decode(bytes(block))
            return
        assert decoder.decode(bytes(block)) == wanted
