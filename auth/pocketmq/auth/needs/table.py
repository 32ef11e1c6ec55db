"""Tables of needs: what each request code needs, closed by default."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from pocketmq.auth.needs.parts import (
    BodyPart,
    ClusterPart,
    NamedClusterPart,
    NamedPart,
    NothingPart,
    Part,
    StoredPart,
    SuperPart,
)
from pocketmq.auth.rights.policies import Action, Need, ResourceType

NeedsTable = Mapping[int, Sequence[Part]]
"""The parts that find the needs of a request, in the order in which they are checked, by code.

A code that is not in the table is for Super users only.
"""

ONLY_SUPER = (SuperPart(),)
OPEN = (NothingPart(),)


def topic(*actions: Action, field: str = "topic", retry: Action | None = None) -> NamedPart:
    """The topic that a field must name."""
    retries = None if retry is None else frozenset({retry})
    return NamedPart(ResourceType.TOPIC, field, frozenset(actions), retry=retries)


def group(*actions: Action, field: str = "consumerGroup") -> NamedPart:
    """The group that a field must name."""
    return NamedPart(ResourceType.GROUP, field, frozenset(actions))


def topic_if_named(
    *actions: Action,
    field: str = "topic",
    otherwise: Part = OPEN[0],
    separator: str | None = None,
    exempt: Sequence[str] = (),
) -> NamedPart:
    """The topic that a field may name; without it `otherwise`."""
    return NamedPart(
        ResourceType.TOPIC, field, frozenset(actions), otherwise=otherwise, separator=separator,
        exempt=exempt,
    )  # fmt: skip


def group_if_named(
    *actions: Action,
    field: str = "consumerGroup",
    otherwise: Part = OPEN[0],
    separator: str | None = None,
) -> NamedPart:
    """The group that a field may name; without it `otherwise`."""
    return NamedPart(
        ResourceType.GROUP, field, frozenset(actions), otherwise=otherwise, separator=separator
    )


def cluster(*actions: Action) -> ClusterPart:
    """The server's clusters."""
    return ClusterPart(frozenset(actions))


def named_cluster(*actions: Action, field: str = "clusterName") -> NamedClusterPart:
    """The cluster that a field must name."""
    return NamedClusterPart(field, frozenset(actions))


def stored(
    *actions: Action, field: str, otherwise: Part | None = None, is_id: bool = False
) -> StoredPart:
    """The topic of the message that a field names."""
    return StoredPart(field, frozenset(actions), otherwise=otherwise, is_id=is_id)


def in_body(text: str, read: Callable[[bytes], Iterable[Need]]) -> BodyPart:
    """What the body names."""
    return BodyPart(text, read)


def key_fields(parts: Sequence[Part]) -> tuple[str, ...] | None:
    """The fields that alone decide about the needs; None if anything else does, too."""
    names: list[str] = []
    for part in parts:
        if part.fields is None:
            return None
        names += part.fields
    return tuple(names)


def described(parts: Sequence[Part]) -> str:
    """The needs as text, for the documentation."""
    return "; ".join(part.text for part in parts)
