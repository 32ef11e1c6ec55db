"""The members of groups that are connected."""

from __future__ import annotations

from pocketmq.client import Admin


async def member_ids(admin: Admin, group: str) -> list[str]:
    """Returns the client ids of a group's members that are connected, sorted."""
    connections = (await admin.consumers(group)).values()
    return sorted({each.client_id for found in connections for each in found.connection_set})
