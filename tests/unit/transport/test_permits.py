from __future__ import annotations

import pytest

from pocketmq.transport.errors import TooMuchRequestError
from pocketmq.transport.permits import ASYNC_PERMITS, ONEWAY_PERMITS, Permits


def test_limits_are_those_of_the_real_client() -> None:
    assert (ONEWAY_PERMITS, ASYNC_PERMITS) == (65535, 65535)


def test_refuses_at_the_limit_and_takes_again_after_a_release() -> None:
    permits = Permits("one-way", 2)
    permits.acquire()
    permits.acquire()
    with pytest.raises(TooMuchRequestError, match="all 2 one-way permits are taken") as caught:
        permits.acquire()
    assert (caught.value.kind, caught.value.limit) == ("one-way", 2)
    assert permits.taken == 2
    permits.release()
    permits.acquire()
    assert permits.taken == 2


def test_giving_back_twice_is_a_bug() -> None:
    with pytest.raises(AssertionError, match="given back twice"):
        Permits("async", 1).release()
