"""Apache's producers on this cluster: delays, message trace."""

from __future__ import annotations

import pytest
from interop.conftest import RunProbe
from interop.scenarios import NewName, Scenarios, by_key, keys, play

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

# Of levels 1 to 4 in BROKER_SETTINGS.
LEVEL_DELAYS_MS = {"0": 0, "1": 1000, "2": 1000, "3": 1000, "4": 2000}


@pytest.fixture(scope="module")
def seen(java: RunProbe, new_name: NewName) -> Scenarios:
    """All scenarios of this module, played together."""
    commands = ("delays", "trace")
    return play(java, new_name, *commands)


def test_delayed_messages_come_when_they_are_due(seen: Scenarios) -> None:
    delays = seen["delays"]
    assert {result["status"] for result in delays["results"]} == {"SEND_OK"}
    assert keys(delays["deliveries"]) == dict.fromkeys(LEVEL_DELAYS_MS, 1)
    for level, [message] in by_key(delays["deliveries"]).items():
        waited_ms = message["storeTimestamp"] - message["bornTimestamp"]
        assert waited_ms >= LEVEL_DELAYS_MS[level], level
        if level != "0":
            assert message["properties"]["DELAY"] == level
            assert message["properties"]["REAL_TOPIC"] == message["topic"]


def test_producer_and_consumer_leave_traces(seen: Scenarios) -> None:
    trace = seen["trace"]
    records = {record[0]: record for record in trace["records"]}
    assert set(records) == {"Pub", "SubBefore", "SubAfter"}
    assert records["Pub"][3:6] == [trace["group"], trace["topic"], trace["msgId"]]
    assert records["Pub"][-1] == "true"
    assert records["SubBefore"][3] == trace["group"]
    assert records["SubBefore"][5] == records["SubAfter"][2] == trace["msgId"]
    assert records["SubBefore"][4] == records["SubAfter"][1]
