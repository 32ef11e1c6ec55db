"""For how long a receive waits."""

from __future__ import annotations

import pytest

from pocketmq.proxy.receiving import poll_s
from pocketmq.proxy.rpc import messaging_pb2 as pb
from pocketmq.proxy.statuses import Refusal


@pytest.mark.parametrize(
    ("left_s", "wanted_s", "expected_s"),
    [
        (None, None, 20.0),
        (None, 1.0, 5.0),
        (None, 60.0, 20.0),
        (30.0, None, 20.0),
        (12.0, None, 10.5),
        (12.0, 8.0, 8.0),
        # The answer is there before the deadline, also when the client waits until then.
        (10.0, 10.0, 9.5),
        (8.0, 20.0, 7.5),
        (5.0, 5.0, 4.5),
    ],
)
def test_a_poll_ends_before_the_deadline(
    left_s: float | None, wanted_s: float | None, expected_s: float
) -> None:
    assert poll_s(left_s, wanted_s) == expected_s


def test_a_deadline_that_is_too_near_is_refused() -> None:
    with pytest.raises(Refusal, match=r"4\.900 s are left, at least 5 s are needed") as refused:
        poll_s(4.9, 5.0)
    assert refused.value.status.code == pb.ILLEGAL_POLLING_TIME
