"""Apache's admin tool looks into, feeds and sets back Apache's consumer on this cluster."""

from __future__ import annotations

import pytest
from interop.conftest import RunProbe
from support.interop.scenarios import Document, NewName, numbers, play

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def operator(java: RunProbe, new_name: NewName) -> Document:
    """What the operator saw."""
    document: Document = play(java, new_name, "operator")["operator"]
    return document


def test_consumer_connection_is_shown(operator: Document) -> None:
    assert operator["connections"] == {operator["clientId"]: "JAVA"}
    subscribed = sorted([operator["topic"], f"%RETRY%{operator['group']}"])
    assert operator["connectedSubscriptions"] == subscribed


def test_running_consumer_tells_of_itself(operator: Document) -> None:
    running = operator["running"]
    assert running["consumeType"] == "CONSUME_PASSIVELY"
    assert running["subscriptions"] == operator["connectedSubscriptions"]
    assert [queue["queueId"] for queue in running["queues"]] == [0, 1]
    assert running["stacks"]


def test_consumer_is_given_one_message_directly(operator: Document) -> None:
    assert operator["directly"] == "CR_SUCCESS"
    assert len(operator["again"]) == 1


def test_offsets_of_a_running_group_are_set_back(operator: Document) -> None:
    assert operator["resetTo"] == {"0": 0, "1": 0}
    assert set(operator["afterReset"]) == set(numbers(12))
