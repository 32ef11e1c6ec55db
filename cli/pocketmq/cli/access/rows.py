"""Users and policies of several brokers as rows of listings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pocketmq.protocol.bodies.users import AclInfo, UserInfo

USER_COLUMNS = ("user", "type", "status", "brokers")
POLICY_COLUMNS = ("user", "resource", "actions", "sourceIps", "decision", "type", "brokers")


def user_rows(users: Mapping[str, Sequence[UserInfo]]) -> list[dict[str, Any]]:
    """One row for each version of a user, with the number of brokers that have it."""
    counts: dict[tuple[str | None, ...], int] = {}
    for infos in users.values():
        for info in infos:
            key = (info.username, info.user_type, info.user_status)
            counts[key] = counts.get(key, 0) + 1
    return [
        {"user": name, "type": user_type, "status": status, "brokers": count}
        for (name, user_type, status), count in sorted(counts.items(), key=lambda c: str(c[0][0]))
    ]


def policy_rows(acls: Mapping[str, Sequence[AclInfo]]) -> list[dict[str, Any]]:
    """One row for each entry, with the number of brokers that have it.

    Args:
        acls: policies by the addresses of brokers.
    """
    counts: dict[tuple[str, ...], int] = {}
    for infos in acls.values():
        for info in infos:
            user = (info.subject or "").removeprefix("User:")
            for policy in info.policies:
                for entry in policy.entries:
                    row = (
                        user,
                        entry.resource or "",
                        ",".join(entry.actions or ()),
                        ",".join(entry.source_ips or ()),
                        entry.decision or "",
                        policy.policy_type or "Custom",
                    )
                    counts[row] = counts.get(row, 0) + 1
    return [
        dict(zip(POLICY_COLUMNS, (*row, count), strict=True))
        for row, count in sorted(counts.items())
    ]
