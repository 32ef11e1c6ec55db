"""Requests about dead letters."""

from __future__ import annotations

from pocketmq.protocol.requests.extensions.redrives import (
    ChangeRedriveRequest,
    DeadLetterStatesRequest,
    ListRedrivesRequest,
    PlanRedriveRequest,
    RedriveResultsRequest,
    StartRedriveRequest,
)
from pocketmq.protocol.wire.command import Command


def test_fields_are_told_by_name() -> None:
    for request, code, fields in (
        (PlanRedriveRequest(group="g"), 31040, {"group": "g", "samples": "3"}),
        (StartRedriveRequest(group="g", topic="t"), 31041, {"group": "g", "topic": "t"}),
        (
            ChangeRedriveRequest(group="g", redrive_id="r", change="pause", reason="why"),
            31042,
            {"group": "g", "redriveId": "r", "change": "pause", "reason": "why"},
        ),
        (ListRedrivesRequest(group="g"), 31043, {"group": "g"}),
        (
            RedriveResultsRequest(group="g", redrive_id="r"),
            31044,
            {"group": "g", "redriveId": "r", "begin": "-1"},
        ),
        (
            DeadLetterStatesRequest(group="g", count=3),
            31045,
            {"group": "g", "queueId": "0", "offset": "0", "count": "3"},
        ),
    ):
        command = Command(request.code, header=request)
        assert (int(command.code), command.fields) == (code, fields)
