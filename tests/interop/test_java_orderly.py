"""Apache's push consumer with an orderly listener on this cluster."""

from __future__ import annotations

import pytest
from interop.conftest import RunProbe
from support.interop.scenarios import NewName, Scenarios, by_member, keys, play

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

QUEUES = 4


@pytest.fixture(scope="module")
def seen(java: RunProbe, new_name: NewName) -> Scenarios:
    """All scenarios of this module, played together."""
    return play(java, new_name, "orderly", "orderly-retries")


def test_order_holds_while_members_come_and_go(seen: Scenarios) -> None:
    orderly = seen["orderly"]
    assert set(keys(orderly["deliveries"])) == {str(n) for n in range(orderly["sent"])}
    assert set(by_member(orderly["deliveries"])) == {"stays", "guest"}
    for queue in range(QUEUES):
        numbers = [
            int(one["message"]["keys"])
            for one in orderly["deliveries"]
            if one["message"]["queueId"] == queue
        ]
        # The next member may begin with what the last one had just finished.
        first_seen = list(dict.fromkeys(numbers))
        assert first_seen == list(range(queue, orderly["sent"], QUEUES))


def test_queue_waits_for_its_failed_message(seen: Scenarios) -> None:
    attempts = [
        (one["message"]["keys"], one["message"]["reconsumeTimes"])
        for one in seen["orderly-retries"]["deliveries"]
    ]
    assert attempts == [
        ("first", 0),
        ("suspended", 0),
        ("suspended", 1),
        ("after", 0),
        ("hopeless", 0),
        ("hopeless", 1),
        ("hopeless", 2),
        ("last", 0),
    ]


def test_message_that_fails_too_often_is_a_dead_letter(seen: Scenarios) -> None:
    [dead] = seen["orderly-retries"]["deadLetters"]
    assert dead["keys"] == "hopeless"
    first = seen["orderly-retries"]["deliveries"][0]["message"]
    assert dead["properties"]["RETRY_TOPIC"] == first["topic"]
