"""Apache's pull consumers on this cluster: seek, pause, commit, waiting pulls, send back."""

from __future__ import annotations

import pytest
from interop.conftest import RunProbe
from support.interop.scenarios import NewName, Scenarios, play

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def seen(java: RunProbe, new_name: NewName) -> Scenarios:
    """All scenarios of this module, played together."""
    return play(java, new_name, "lite-seek", "pull-block")


def even(start: int, stop: int) -> list[str]:
    """The keys of the first queue: the messages were sent to two, by turns."""
    return [str(n) for n in range(start, stop, 2)]


def test_lite_consumer_seeks(seen: Scenarios) -> None:
    seeks = seen["lite-seek"]
    assert sorted(map(int, seeks["fromBegin"])) == list(range(20))
    assert [key for key in seeks["fromBegin"] if int(key) % 2 == 0] == even(0, 20)
    assert seeks["fromOffset"] == even(2 * 5, 20)
    assert seeks["fromBeginAgain"] == even(0, 20)
    assert sorted(seeks["afterEnd"]) == ["20", "21"]
    assert seeks["byTime"] == {"before": 0, "after": 11}


def test_lite_consumer_pauses_a_queue(seen: Scenarios) -> None:
    seeks = seen["lite-seek"]
    assert seeks["whilePaused"] == ["23"]
    assert seeks["resumed"] == even(0, 22)


def test_lite_consumer_goes_on_where_its_group_committed(seen: Scenarios) -> None:
    assert seen["lite-seek"]["fromCommitted"] == even(2 * 3, 22)


def test_pull_waits_for_its_message(seen: Scenarios) -> None:
    pulled = seen["pull-block"]
    assert not pulled["early"]
    assert pulled["status"] == "FOUND"
    assert (pulled["blocked"]["keys"], pulled["blocked"]["queueOffset"]) == ("0", 0)


def test_puller_sends_a_message_back(seen: Scenarios) -> None:
    pulled = seen["pull-block"]
    first, back = pulled["blocked"], pulled["back"]
    assert back["topic"].startswith("%RETRY%")
    assert back["reconsumeTimes"] == 1
    assert back["body"] == first["body"]
    assert back["properties"]["RETRY_TOPIC"] == first["topic"]
    assert back["properties"]["ORIGIN_MESSAGE_ID"] == first["offsetMsgId"]
    assert back["properties"]["DELAY"] == "1"
    assert back["storeTimestamp"] >= first["storeTimestamp"] + 1000
