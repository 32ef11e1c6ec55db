"""Topics that stand for the steps of a priority."""

from __future__ import annotations

import pytest

from pocketmq.client.consumers.priority_topics import priority_topics, topic_of_priority


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
