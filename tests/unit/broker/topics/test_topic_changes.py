from __future__ import annotations

import pytest

from pocketmq.broker.topics import topic_changes
from pocketmq.broker.topics.topic_changes import TopicChanges


def test_the_changes_since_a_version_come_once_each_and_newest_first() -> None:
    changes = TopicChanges(7)
    for version, topic in enumerate(["A", "B", "C", "A"], 8):
        changes.note(topic, version)
    assert changes.since(7) == ["A", "C", "B"]
    assert changes.since(9) == ["A", "C"]
    assert changes.since(11) == []


def test_what_changed_before_the_start_is_not_known() -> None:
    assert TopicChanges(7).since(6) is None
    assert TopicChanges(7).since(7) == []


def test_what_is_noted_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_changes, "NOTED_MAX", 2)
    changes = TopicChanges(0)
    for version, topic in enumerate("ABC", 1):
        changes.note(topic, version)
    assert changes.since(0) is None, "the change of A is forgotten"
    assert changes.since(1) == ["C", "B"]


def test_changes_that_are_forgotten_cannot_be_told_topic_by_topic() -> None:
    changes = TopicChanges(0)
    changes.note("A", 1)
    changes.forget_all(2)
    changes.note("B", 3)
    assert changes.since(1) is None
    assert changes.since(2) == ["B"]
