"""Priorities, which RocketMQ does not have: each step of them is a topic of its own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import msgspec

Priorities = Annotated[tuple[int, ...], msgspec.Meta(min_length=1, max_length=10)]
"""The steps that have a topic of their own; (0,) for no priorities."""


def priority_topics(topic: str, steps: Iterable[int]) -> list[str]:
    """Returns the topics of a work queue, highest priority first.

    Args:
        topic: of the queue, which is that of the lowest step.
        steps: the priorities that have a topic of their own.
    """
    _, *higher = sorted(steps)
    return [f"{topic}%P{step}" for step in reversed(higher)] + [topic]


def topic_of_priority(topic: str, steps: Iterable[int], priority: int) -> str:
    """Returns the topic for a message: that of the highest step that does not exceed its priority.

    Args:
        topic: of the queue.
        steps: the priorities that have a topic of their own.
        priority: of the message.
    """
    _, *higher = sorted(steps)
    reached = [step for step in higher if step <= priority]
    return f"{topic}%P{reached[-1]}" if reached else topic
