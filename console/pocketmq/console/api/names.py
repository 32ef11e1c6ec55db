"""Lists of names, a part at a time."""

from __future__ import annotations

from collections.abc import Iterable

from pocketmq.console.api.bodies.topics import Kind, ListQuery
from pocketmq.protocol.names import names


def kind_of(topic: str, system: frozenset[str]) -> Kind:
    """What a topic is for.

    Args:
        topic: its name.
        system: names of brokers and clusters, which have a topic each.

    The topics of answers to requests (`reply_topic`) are the brokers' own, too.
    """
    if topic.startswith(names.RETRY_PREFIX):
        return "retry"
    if topic.startswith(names.DLQ_PREFIX):
        return "dead letters"
    own = system | {names.reply_topic(name) for name in system}
    return "system" if names.is_system_topic(topic) or topic in own else "normal"


def part_of(found: Iterable[str], query: ListQuery) -> tuple[int, list[str], str | None]:
    """Cuts a list of names.

    Returns:
        how many fit, the part that is wanted, and where the next part goes on, if there is one.
    """
    wanted = query.contains.lower()
    fitting = sorted(name for name in found if wanted in name.lower())
    behind = [name for name in fitting if name > query.after] if query.after else fitting
    part = behind[: query.limit]
    return len(fitting), part, part[-1] if len(behind) > len(part) else None
