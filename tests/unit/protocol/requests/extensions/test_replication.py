"""Requests between the members of a broker set, and to its arbiter."""

from __future__ import annotations

from pocketmq.protocol.requests.extensions.replication import (
    ArbiterWriteRequest,
    FollowRequest,
    ReplicateRequest,
    SwitchLeaderRequest,
)
from pocketmq.protocol.wire.command import Command


def test_fields_are_told_by_name() -> None:
    for request, code, fields in (
        (FollowRequest(member_id=2, epoch=7), 31011, {"memberId": "2", "epoch": "7"}),
        (
            ReplicateRequest(epoch=7, sequence=1, turn=5, shown=4, lease_ms=3000),
            31012,
            {"epoch": "7", "sequence": "1", "turn": "5", "shown": "4", "leaseMs": "3000"},
        ),
        (ArbiterWriteRequest(key="/a", version=3), 31014, {"key": "/a", "version": "3"}),
        (SwitchLeaderRequest(), 31015, {"memberId": "-1", "reason": ""}),
    ):
        command = Command(request.code, header=request)
        assert (int(command.code), command.fields) == (code, fields)
