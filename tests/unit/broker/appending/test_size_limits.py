"""The limits of bodies and properties: the last size that passes, and what the refusal says."""

from __future__ import annotations

import pytest

from pocketmq.broker.appending.size_limits import check_body_size, check_properties_size
from pocketmq.protocol.errors import ResponseError


def test_a_body_may_have_as_many_bytes_as_the_limit() -> None:
    check_body_size(b"abc", 3)
    with pytest.raises(ResponseError, match=r"has 4 bytes, the limit maxMessageSize .* is 3") as e:
        check_body_size(b"abcd", 3)
    assert e.value.code == 13


def test_properties_have_a_limit_of_their_own() -> None:
    check_properties_size(bytes(32_767))
    with pytest.raises(ResponseError, match="have 32768 bytes, the limit is 32767") as e:
        check_properties_size(bytes(32_768))
    assert e.value.code == 13
    with pytest.raises(ResponseError, match="the limit is 3"):
        check_properties_size(b"abcd", 3)
