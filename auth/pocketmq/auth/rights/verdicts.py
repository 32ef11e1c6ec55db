"""Says whether a user may do something, and which entry decides, from what a broker tells."""

from __future__ import annotations

from typing import NamedTuple

from pocketmq.auth.rights.acl_texts import entries_of, named, resource_of
from pocketmq.auth.rights.decision import decide
from pocketmq.auth.rights.policies import Acl, Action, Need, ResourceType
from pocketmq.protocol.bodies.users import AclInfo, UserInfo
from pocketmq.protocol.errors import ResponseError, UsageError


class Explained(NamedTuple):
    """Whether something is allowed.

    Attributes:
        is_allowed: whether it is.
        entry: the entry that decides; empty if none does.
        reason: why.
    """

    is_allowed: bool
    entry: str
    reason: str


def explained(info: UserInfo, acl: AclInfo, action: str, resource: str, ip: str) -> Explained:
    """Says whether a user may do something, and why.

    Args:
        info: the user.
        acl: the user's policies.
        action: Pub, Sub, Create, Update, Delete, Get or List.
        resource: such as ``Topic:orders``.
        ip: the address that asks.

    Raises:
        UsageError: there is no such action, or no such kind of resource.
    """
    wanted = named(Action, action)
    if wanted is None or wanted in (Action.ALL, Action.ANY):
        raise UsageError(f"{action} is no action: Pub, Sub, Create, Update, Delete, Get or List")
    try:
        asked = resource_of(resource)
    except ResponseError as e:
        raise UsageError(
            f"{resource} is no resource: write Topic:NAME, Group:NAME or Cluster:NAME"
        ) from e
    if asked.kind is ResourceType.ANY or "*" in asked.name:
        raise UsageError("requests ask for one resource by its name, without an asterisk")
    if info.user_status == "disable":
        return Explained(False, "", "the user is disabled")
    if info.user_type == "Super":
        return Explained(True, "", "Super users may do everything")
    entries = tuple(entries_of(acl)) if acl.policies else ()
    verdict = decide(Acl(info.username or "", entries), Need(asked, frozenset({wanted})), ip)
    entry = verdict.entry
    if entry is None:
        reason = f"no entry fits {resource}, {wanted.value} and {ip}; what is not allowed is denied"
        return Explained(False, "", reason)
    actions = ",".join(sorted(a.value for a in entry.actions))
    return Explained(
        verdict.is_allowed,
        f"{entry.decision.value} {actions} on {entry.resource}",
        f"the most exact {entry.policy_type.value} entry that fits",
    )
