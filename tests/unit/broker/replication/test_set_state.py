"""The state of a broker set: how it changes, and what is no state."""

from __future__ import annotations

import pytest

from pocketmq.broker.replication.set_state import (
    MemberEntry,
    decode_state,
    encode_state,
    founded,
)
from pocketmq.protocol.errors import ContentError

ONE, TWO = MemberEntry("host1:10911", "d1"), MemberEntry("host2:10911", "d2")


def test_a_set_from_its_beginning_to_a_switch() -> None:
    first = founded("set", 1, ONE, 5, "the set is new")
    both = first.with_in_sync([1, 2], {2: TWO})
    assert (both.epoch, both.in_sync, both.members) == (1, (1, 2), {1: ONE, 2: TWO})
    switched = both.handed_over(2, 6, "it was asked to")
    assert (switched.epoch, switched.leader, switched.in_sync) == (2, TWO, (1, 2))
    assert switched.alone().in_sync == (2,)
    elected = switched.alone().with_in_sync([1], {}).elected(1, ONE, 7, "member 2 is gone")
    assert (elected.epoch, elected.leader_id, elected.in_sync) == (3, 1, (1,))
    assert decode_state(encode_state(elected)) == elected


def test_the_leader_is_always_in_sync() -> None:
    assert founded("set", 1, ONE, 5, "").with_in_sync([2], {2: TWO}).in_sync == (1, 2)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        encode_state(founded("set", 1, ONE, 5, "")).replace(b'"leaderId":1', b'"leaderId":2'),
    ],
)
def test_what_is_no_state_is_refused(data: bytes) -> None:
    with pytest.raises(ContentError):
        decode_state(data)
