"""Which topics and groups stand for kombu's queues and exchanges."""

from __future__ import annotations

import re
from collections.abc import Iterable

_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]")


def entity_name(name: str, prefix: str = "") -> str:
    """Returns the topic, and the group, of a queue or of a fanout exchange.

    Characters that RocketMQ's names do not have become the ``%XX`` of their bytes, so that two
    queues never share a topic: ``celery@host`` is ``celery%40host``.

    Args:
        name: kombu's name.
        prefix: put before it.
    """
    return _ILLEGAL.sub(_escaped, prefix + name)


def _escaped(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode())


def priority_topics(topic: str, steps: Iterable[int]) -> list[str]:
    """Returns the topics of a queue, highest priority first.

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
