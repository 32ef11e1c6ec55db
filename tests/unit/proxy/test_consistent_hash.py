"""To which queue a message group goes: RocketMQ's answers."""

from __future__ import annotations

import pytest

from pocketmq.proxy.consistent_hash import bucket_of


@pytest.mark.parametrize(
    ("group", "buckets"),
    [
        ("g1", [0, 0, 6, 9]),
        ("g2", [0, 3, 4, 9]),
        ("order-1", [0, 3, 3, 3]),
        ("\N{CJK UNIFIED IDEOGRAPH-4E2D}", [0, 0, 0, 0]),
    ],
)
def test_a_group_goes_where_apaches_proxy_sends_it(group: str, buckets: list[int]) -> None:
    assert [bucket_of(group, count) for count in (2, 4, 8, 16)] == buckets
