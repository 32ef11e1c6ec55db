from __future__ import annotations

import pytest

from pocketmq.protocol import flags


@pytest.mark.parametrize(
    ("perm", "text"), [(0, "---"), (2, "-W-"), (4, "R--"), (6, "RW-"), (7, "RWX"), (1, "--X")]
)
def test_permissions(perm: int, text: str) -> None:
    assert flags.perm_text(perm) == text
    assert flags.is_readable(perm) is text.startswith("R")
    assert flags.is_writable(perm) is ("W" in text)


def test_bits_of_messages_are_those_of_the_wire() -> None:
    assert (flags.COMPRESSED, flags.MULTI_TAGS, flags.TRANSACTION_MASK) == (1, 2, 0xC)
    assert (flags.BORN_HOST_V6, flags.STORE_HOST_V6) == (0x10, 0x20)
    methods = (flags.COMPRESSION_LZ4, flags.COMPRESSION_ZSTD, flags.COMPRESSION_ZLIB)
    assert methods == (0x100, 0x200, 0x300)
    assert all(method & flags.COMPRESSION_MASK == method for method in methods)
