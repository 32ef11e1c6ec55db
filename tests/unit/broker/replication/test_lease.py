"""A leader's lease: the promises of all that could be elected."""

from __future__ import annotations

from pocketmq.broker.replication.lease import Lease


def test_alone_a_leader_needs_no_promise() -> None:
    assert Lease(3.0).is_valid(1e9)


def test_the_oldest_promise_counts() -> None:
    lease = Lease(3.0)
    lease.heard(2, 10.0)
    lease.heard(3, 11.0)
    lease.require([2, 3])
    assert lease.is_valid(12.9)
    assert not lease.is_valid(13.0)
    lease.heard(2, 12.0)
    lease.heard(2, 9.0)  # an answer that was overtaken
    assert lease.is_valid(13.9)
    assert not lease.is_valid(14.0)
    lease.require([2])
    assert lease.is_valid(14.9)
    lease.require([])
    assert lease.is_valid(1e9)


def test_of_whom_nothing_was_heard_there_is_no_promise() -> None:
    lease = Lease(3.0)
    lease.require([2])
    assert not lease.is_valid(0.0)
