"""Jumps of a cluster's clock, with what came due on the way."""

from __future__ import annotations

from msgspec import field

from pocketmq.console.web.bodies import ResponseBody
from pocketmq.protocol.names.names import is_system_topic
from pocketmq.testing.control.models import ClockInfo
from pocketmq.testing.core import Core

STEPS_MAX = 1000
"""Timers of brokers that may fire on the way to the next message."""

WAIT_MAX_S = 366 * 86_400
"""The longest way to the next message."""


class Came(ResponseBody):
    """Messages that came into a topic.

    Attributes:
        topic: also one of retries (``%RETRY%``) or dead letters (``%DLQ%``) of a group.
    """

    topic: str
    messages: int


class Jump(ResponseBody):
    """What a jump of the clock has done.

    Attributes:
        clock: the time after it.
        jumped_ms: how far it went.
        waited: messages that waited for their time before, and open transactions.
        came: what came on the way.
    """

    clock: ClockInfo
    jumped_ms: int
    waited: int
    came: list[Came] = field(default_factory=list)


def ends(core: Core) -> dict[str, int]:
    """Counts the messages that each topic has ever got, but for those of the brokers themselves."""
    found: dict[str, int] = {}
    for broker in core.brokers():
        for topic in broker.topics:
            name = topic.topic_name
            if is_system_topic(name):
                continue
            logs = (broker.store.find_log(name, queue) for queue in broker.store.queue_ids(name))
            found[name] = found.get(name, 0) + sum(log.max_offset for log in logs if log)
    return found


def came_since(core: Core, before: dict[str, int]) -> list[Came]:
    """Tells what has come since topics held so many messages."""
    now = ends(core)
    return [
        Came(topic=name, messages=now[name] - before.get(name, 0))
        for name in sorted(now)
        if now[name] > before.get(name, 0)
    ]


async def to_next(core: Core) -> float | None:
    """Sets the clock forward until a waiting message has come, or a transaction was checked.

    Returns:
        How many seconds it went; None if nothing waits.
    """
    travel, went_s = core.travel, 0.0
    assert travel is not None
    waiting, stored = core.waiting(), core.stored_count()
    for _ in range(STEPS_MAX):
        step_s = travel.next_due_s() if waiting else None
        if step_s is None or went_s + step_s > WAIT_MAX_S:
            break
        await core.advance(step_s)
        went_s += step_s
        if (core.waiting(), core.stored_count()) != (waiting, stored):
            break
    return went_s if waiting else None
