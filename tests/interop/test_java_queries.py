"""Apache's clients find messages by key, id and place, on this cluster and on Apache's."""

from __future__ import annotations

import pytest
from interop.conftest import RunProbe
from support.interop.clusters import Cluster
from support.interop.scenarios import Document, NewName, play

from pocketmq.protocol.messages.properties import java_hash

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

NO_MESSAGE = 208
TOPIC_NOT_EXIST = 17


@pytest.fixture(scope="module")
def seen(java: RunProbe, new_name: NewName, either: Cluster) -> Document:
    """What the queries found."""
    played = play(java, new_name, "queries", namesrv=either.namesrv)
    document: Document = played["queries"]
    return document


def test_messages_are_found_by_key_in_time_ranges(seen: Document) -> None:
    assert seen["bodies"] == {
        "all": ["0", "1", "2", "3", "4", "5"],
        "half-1": ["3", "4", "5"],
        "newest two": ["4", "5"],
        "this hour": ["0", "1", "2", "3", "4", "5"],
        "until an hour ago": [],
        "a tag": [],
    }


def test_one_message_is_found_by_each_of_its_ids(seen: Document) -> None:
    assert seen["byUniqueKey"]["msgId"] == seen["sentIds"][2]
    assert seen["byUniqueKey"]["keys"] == "all half-0"
    assert seen["byOffset"]["msgId"] == seen["sentIds"][5]
    assert seen["byOffset"]["queueOffset"] == 5


def test_what_is_not_there_is_said_so(seen: Document) -> None:
    assert (seen["nothingCode"], seen["missingTopicCode"]) == (NO_MESSAGE, TOPIC_NOT_EXIST)


def test_a_queues_index_is_shown(seen: Document) -> None:
    codes = [entry["tagsCode"] for entry in seen["entries"]]
    assert codes == [java_hash(tag) for tag in ("odd", "even", "odd")]
    assert seen["range"] == [0, 6]
