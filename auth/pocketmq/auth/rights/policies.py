"""Policies: who may do what with which resources (`auth/authorization/model`)."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

import msgspec


class ResourceType(Enum):
    """Kinds of resources; `ANY` stands in policies only, for all of them."""

    ANY = "Any"
    CLUSTER = "Cluster"
    NAMESPACE = "Namespace"
    TOPIC = "Topic"
    GROUP = "Group"


class Action(Enum):
    """What can be done with a resource; `ALL` allows everything, `ANY` can only be asked for."""

    PUB = "Pub"
    SUB = "Sub"
    CREATE = "Create"
    UPDATE = "Update"
    DELETE = "Delete"
    GET = "Get"
    LIST = "List"
    ALL = "All"
    ANY = "Any"


class Resource(NamedTuple):
    """One resource that a request asks for; as text, such as ``Topic:orders``."""

    kind: ResourceType
    name: str

    def __str__(self) -> str:
        return f"{self.kind.value}:{self.name}"


class Need(NamedTuple):
    """What a request asks for: a resource, and the actions of which one suffices."""

    resource: Resource
    actions: frozenset[Action]


class Decision(Enum):
    """What an entry says of the requests that it fits."""

    ALLOW = "Allow"
    DENY = "Deny"


class PolicyType(Enum):
    """Entries of the second kind count only where none of the first fits."""

    CUSTOM = "Custom"
    DEFAULT = "Default"


class PolicyEntry(msgspec.Struct, frozen=True):
    """One entry of a policy.

    Attributes:
        resource: as text: ``*``, ``Topic:*``, ``Topic:prefix*`` or ``Topic:name``.
        actions: that it speaks of.
        decision: whether it allows or denies them.
        source_ips: addresses and networks that it is limited to; all if empty.
        policy_type: custom or default.
    """

    resource: str
    actions: frozenset[Action]
    decision: Decision
    source_ips: tuple[str, ...] = ()
    policy_type: PolicyType = PolicyType.CUSTOM


class Acl(msgspec.Struct, frozen=True):
    """The policies of one user.

    Attributes:
        username: of the user.
        entries: of its policies.
    """

    username: str
    entries: tuple[PolicyEntry, ...] = ()
