"""Topics and groups of kombu's queues."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.kombu.names import entity_name, priority_topics, topic_of_priority
from pocketmq.protocol.names.names import check_topic


@given(st.text(min_size=1, max_size=8), st.text(min_size=1, max_size=8))
def test_names_are_legal_and_never_meet(one: str, other: str) -> None:
    check_topic(entity_name(one))
    assert (entity_name(one) == entity_name(other)) == (one == other)


def test_a_name_stays_readable() -> None:
    assert entity_name("celery@web-1.pidbox", "dev_") == "dev_celery%40web-1%2Epidbox"


def test_queues_without_priorities_have_one_topic() -> None:
    assert priority_topics("celery", (0,)) == ["celery"]
    assert topic_of_priority("celery", (0,), 9) == "celery"


@pytest.mark.parametrize(
    ("priority", "topic"),
    [(0, "q"), (2, "q"), (3, "q%P3"), (5, "q%P3"), (6, "q%P6"), (9, "q%P6")],
)
def test_a_priority_goes_to_the_highest_step_that_it_reaches(priority: int, topic: str) -> None:
    steps = (6, 0, 3)
    assert priority_topics("q", steps) == ["q%P6", "q%P3", "q"]
    assert topic_of_priority("q", steps, priority) == topic
