"""The request about popped messages that are not acknowledged."""

from __future__ import annotations

from pocketmq.protocol.requests.extensions.in_flight import InFlightRequest
from pocketmq.protocol.wire.command import Command


def test_fields_are_told_by_name() -> None:
    request = InFlightRequest(consumer_group="g", topic="t", offset=7)
    command = Command(request.code, header=request)
    assert int(command.code) == 31060
    assert command.fields == {
        "consumerGroup": "g", "topic": "t", "queueId": "-1", "offset": "7", "count": "1",
    }  # fmt: skip
