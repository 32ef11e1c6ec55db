"""Decides whether policies allow what a request needs (`auth/authorization/chain`)."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import ip_address, ip_network
from typing import NamedTuple

from pocketmq.auth.rights.policies import (
    Acl,
    Action,
    Decision,
    Need,
    PolicyEntry,
    PolicyType,
    Resource,
)

NO_MATCH = "no matched policies."
DENIED = "the decision is deny."
"""RocketMQ's words."""


class Verdict(NamedTuple):
    """Whether something is allowed, the entry that decided, and why it is not."""

    is_allowed: bool
    entry: PolicyEntry | None
    reason: str


def decide(acl: Acl | None, need: Need, source_ip: str) -> Verdict:
    """Decides about one need: the most exact entry counts, among equals one that denies.

    Args:
        acl: of the user; None without policies.
        need: of the request.
        source_ip: the address that it comes from.
    """
    entries = () if acl is None else acl.entries
    for kind in PolicyType:
        fitting = [
            (rank, entry)
            for entry in entries
            if entry.policy_type is kind
            and (rank := _rank(entry, need.resource)) is not None
            and _speaks_of(entry, need.actions)
            and _is_from(entry.source_ips, source_ip)
        ]
        if fitting:
            _, best = max(fitting, key=lambda pair: (pair[0], pair[1].decision is Decision.DENY))
            is_allowed = best.decision is Decision.ALLOW
            return Verdict(is_allowed, best, "" if is_allowed else DENIED)
    return Verdict(False, None, NO_MATCH)


def _rank(entry: PolicyEntry, resource: Resource) -> tuple[int, int] | None:
    """How exactly an entry names a resource; None if it does not."""
    kind, colon, name = entry.resource.partition(":")
    if kind == "*" and not colon:
        return (0, 0)
    if kind.lower() != resource.kind.value.lower():
        return None
    prefix, star, _ = name.partition("*")
    if not star:
        return (3, 0) if name == resource.name else None
    if not prefix:
        return (1, 0)
    return (2, len(prefix)) if resource.name.startswith(prefix) else None


def _speaks_of(entry: PolicyEntry, actions: frozenset[Action]) -> bool:
    return Action.ALL in entry.actions or Action.ANY in actions or bool(entry.actions & actions)


def _is_from(source_ips: tuple[str, ...], source_ip: str) -> bool:
    return not source_ips or any(_is_within(text, source_ip) for text in source_ips)


@lru_cache(maxsize=4096)
def _is_within(network: str, source_ip: str) -> bool:
    if network == source_ip:
        return True
    try:
        return ip_address(source_ip) in ip_network(network, strict=False)
    except ValueError:
        return False
