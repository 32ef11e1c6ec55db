"""Apache's push consumer on this cluster: groups, retries, broadcast, filters, namespaces."""

from __future__ import annotations

from typing import Any

import pytest
from interop.conftest import RunProbe
from support.interop.java_probe import JavaProbe
from support.interop.scenarios import NewName, Scenarios, by_key, by_member, keys, numbers, play

# The first run downloads the Java client.
pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

FILTER_DATA_WRONG = 23
RECONSUME_TIMES_MAX = 2


@pytest.fixture(scope="module")
def seen(java: RunProbe, new_name: NewName, probe: JavaProbe) -> Scenarios:
    """All scenarios of this module, played together."""
    commands = ["clustering", "retries", "broadcasting", "filters", "start-positions", "namespaces"]
    if probe.is_5:
        commands.append("popping")
    return play(java, new_name, *commands, versions="v1,v2" if probe.is_5 else "v1")


def test_members_of_a_group_share_the_queues(seen: Scenarios) -> None:
    shares = seen["clustering"]["shares"]
    queues = [(q["brokerName"], q["queueId"]) for share in shares.values() for q in share]
    assert len(shares["first"]) == len(shares["second"]) == 2
    assert len(set(queues)) == 4


def test_every_message_comes_once_though_a_member_leaves(seen: Scenarios) -> None:
    clustering = seen["clustering"]
    assert keys(clustering["deliveries"]) == numbers(clustering["sent"])
    assert {member: len(got) for member, got in by_member(clustering["deliveries"]).items()} == {
        "first": 100 + 40,
        "second": 100,
    }


def test_failed_messages_come_again_until_they_are_dead_letters(seen: Scenarios) -> None:
    retries = seen["retries"]
    delivered = by_key(retries["deliveries"])
    attempts = {key: [m["reconsumeTimes"] for m in got] for key, got in delivered.items()}
    assert attempts == {
        "fine": [0],
        "hopeless": [0, 1, 2],
        "throws": [0, 1, 2],
        "refused": [0],
        "once": [0, 1],
    }
    dead = {message["keys"]: message["reconsumeTimes"] for message in retries["deadLetters"]}
    assert dead == {
        "refused": 1,
        "hopeless": RECONSUME_TIMES_MAX + 1,
        "throws": RECONSUME_TIMES_MAX + 1,
    }


def test_retried_messages_tell_where_they_come_from(seen: Scenarios) -> None:
    retries = seen["retries"]
    first, second, third = by_key(retries["deliveries"])["hopeless"]
    [dead] = [message for message in retries["deadLetters"] if message["keys"] == "hopeless"]
    assert dead["topic"] == f"%DLQ%{retries['group']}"
    for attempt, level in ((second, "3"), (third, "4"), (dead, "0")):
        properties = attempt["properties"]
        assert attempt["body"] == first["body"]
        assert properties["UNIQ_KEY"] == first["properties"]["UNIQ_KEY"]
        assert properties["ORIGIN_MESSAGE_ID"] == first["offsetMsgId"]
        assert properties["RETRY_TOPIC"] == first["topic"]
        assert properties["REAL_TOPIC"] == f"%RETRY%{retries['group']}"
        assert properties["DELAY"] == level
    # The client shows the topic that its application subscribed.
    assert first["topic"] == second["topic"] == third["topic"]


def test_only_what_a_batch_did_not_acknowledge_comes_again(seen: Scenarios) -> None:
    batches = seen["retries"]["batches"]
    assert [one["batch"] for one in batches[:4]] == [4] * 4
    assert [one["message"]["keys"] for one in batches[:4]] == ["0", "1", "2", "3"]
    again = batches[4:]
    assert keys(again) == {"2": 1, "3": 1}
    assert {one["message"]["reconsumeTimes"] for one in again} == {1}


def test_broadcasting_members_all_get_everything_once(seen: Scenarios) -> None:
    sent, deliveries = seen["broadcasting"]["sent"], seen["broadcasting"]["deliveries"]
    got = {member: keys(some) for member, some in by_member(deliveries).items()}
    assert got["first"] == numbers(sent)
    assert got["second"] == numbers(sent // 2)
    # It goes on behind what it had before, by the offsets of its own file.
    assert got["second"] + got["second again"] == numbers(sent)


def test_filters_by_sql_and_by_tags(seen: Scenarios) -> None:
    filters = seen["filters"]
    by_sql = [n for n in range(5, 15) if n % 3 != 1] + [19, 28, 29]
    assert sorted(map(int, filters["bySql"])) == by_sql
    assert sorted(map(int, filters["polledBySql"])) == by_sql
    by_tags = [n for n in range(28) if n % 10 in (1, 2)] + [28, 29]
    assert sorted(map(int, filters["byTags"])) == by_tags


def test_malformed_sql_is_told_at_the_start(seen: Scenarios) -> None:
    filters = seen["filters"]
    assert filters["wrongCode"] == FILTER_DATA_WRONG
    assert filters["wrongReason"]


def test_new_groups_begin_at_the_first_message_of_a_young_topic(seen: Scenarios) -> None:
    # Also those that ask for the last: nothing of the topic is gone yet.
    positions = seen["start-positions"]
    assert set(positions["deliveries"].values()) == {positions["sent"]}
    assert len(positions["deliveries"]) == 3


def test_namespaces(seen: Scenarios, probe: JavaProbe) -> None:
    spoken: dict[str, Any] = {one["version"]: one for one in seen["namespaces"]}
    assert set(spoken) == ({"v1", "v2"} if probe.is_5 else {"v1"})
    for version, one in spoken.items():
        [delivery] = one["deliveries"]
        topic = delivery["message"]["topic"]
        assert "%" not in topic
        stored = {"v1": f"{one['namespace']}%{topic}", "v2": topic}[version]
        assert one["writtenTopics"] == [stored]


def test_members_that_pop_share_one_queue(seen: Scenarios, probe: JavaProbe) -> None:
    if not probe.is_5:
        pytest.skip("clients pop since 5.0")
    popping = seen["popping"]
    assert keys(popping["deliveries"]) == numbers(200) + keys(popping["deliveries"][-1:])
    assert popping["lag"] == 0
    assert len(by_member(popping["deliveries"])) == 2
    again = by_key(popping["deliveries"])["0"]
    assert [message["reconsumeTimes"] for message in again] == [0, 1]
    assert again[1]["properties"]["ORIGIN_GROUP"]
    assert {one["message"]["topic"] for one in popping["deliveries"]} == {again[0]["topic"]}
