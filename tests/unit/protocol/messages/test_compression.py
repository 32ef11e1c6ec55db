from __future__ import annotations

import contextlib
import zlib

import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.protocol import flags
from pocketmq.protocol.errors import ContentError
from pocketmq.protocol.messages import compression

BODY = b"RocketMQ " * 5000 + bytes(range(256)) * 40

PACKED = {
    "old zlib": (zlib.compress(BODY, 5), flags.COMPRESSED),
    "zlib": (zlib.compress(BODY, 5), flags.COMPRESSED | flags.COMPRESSION_ZLIB),
    "lz4": (lz4.frame.compress(BODY), flags.COMPRESSED | flags.COMPRESSION_LZ4),
    "zstd": (zstandard.compress(BODY), flags.COMPRESSED | flags.COMPRESSION_ZSTD),
    "zstd stream": (
        zstandard.ZstdCompressor(write_checksum=True, write_content_size=False).compress(BODY),
        flags.COMPRESSED | flags.COMPRESSION_ZSTD,
    ),
}


@pytest.mark.parametrize(("packed", "bits"), PACKED.values(), ids=PACKED.keys())
class TestEveryMethod:
    def test_unpacks(self, packed: bytes, bits: int) -> None:
        assert compression.decompress(packed, bits) == BODY

    def test_a_limit_holds_to_the_byte(self, packed: bytes, bits: int) -> None:
        assert compression.decompress(packed, bits, len(BODY)) == BODY
        with pytest.raises(ContentError, match=f"more than {len(BODY) - 1} bytes"):
            compression.decompress(packed, bits, len(BODY) - 1)

    def test_a_cut_is_found(self, packed: bytes, bits: int) -> None:
        for size in range(len(packed)):
            with pytest.raises(ContentError, match=r"cut off|cannot be unpacked"):
                compression.decompress(packed[:size], bits)

    def test_garbage_is_refused(self, packed: bytes, bits: int) -> None:
        with pytest.raises(ContentError):
            compression.decompress(b"garbage" + packed, bits)


@given(st.binary(max_size=3000), st.integers(0, 9))
def test_round_trip(body: bytes, level: int) -> None:
    packed, bits = compression.compress(body, level)
    assert bits == 0x301
    assert compression.decompress(packed, bits) == body


def test_level_is_that_of_the_real_client() -> None:
    packed, _ = compression.compress(BODY)
    assert packed == zlib.compress(BODY, 5)
    assert packed[:2] == bytes.fromhex("785e")


def test_an_unknown_method_is_named() -> None:
    with pytest.raises(ContentError, match="unknown compression method 0x400"):
        compression.decompress(b"", flags.COMPRESSED | 0x400)


@given(st.binary(max_size=200), st.sampled_from([0, 0x100, 0x200, 0x300]))
def test_any_garbage_is_unpacked_or_refused(garbage: bytes, method: int) -> None:
    head = {0x100: bytes.fromhex("04224d18"), 0x200: bytes.fromhex("28b52ffd")}.get(
        method, b"\x78\x5e"
    )
    for data in (garbage, head + garbage):
        with contextlib.suppress(ContentError):
            compression.decompress(data, flags.COMPRESSED | method, 100_000)
