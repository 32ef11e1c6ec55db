from __future__ import annotations

import pytest

from pocketmq.transport.http2 import frames
from pocketmq.transport.http2.frames import ConnectionFault, ErrorCode


def test_a_frame_has_its_size_kind_flags_and_stream() -> None:
    assert frames.frame(frames.PING, frames.ACK, 0, b"12345678").hex() == (
        "0000080601000000003132333435363738"
    )
    assert frames.head(0x123456, frames.DATA, 0, 7).hex() == "123456000000000007"


def test_goaway_says_why() -> None:
    whole = frames.goaway(3, ErrorCode.PROTOCOL_ERROR, "no")
    assert whole[9:] == b"\0\0\0\x03\0\0\0\x01no"


def test_padding_is_cut_off() -> None:
    assert frames.without_padding(b"\x02abc\0\0") == b"abc"


@pytest.mark.parametrize("payload", [b"", b"\x01", b"\x05abc"])
def test_more_padding_than_payload(payload: bytes) -> None:
    with pytest.raises(ConnectionFault):
        frames.without_padding(payload)
