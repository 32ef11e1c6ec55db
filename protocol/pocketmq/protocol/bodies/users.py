"""Users and their policies: the bodies of 3001 to 3010."""

from __future__ import annotations

from msgspec import field

from pocketmq.protocol.bodies import Body
from pocketmq.protocol.signing import MASK

SUBJECT_PREFIX = "User:"
"""Stands before the user's name in the subject of its policies."""


class UserInfo(Body, kw_only=True):
    """A user (`body/UserInfo`); what is None is not changed."""

    username: str | None = None
    password: str | None = None
    user_type: str | None = None
    user_status: str | None = None

    def __repr__(self) -> str:
        return (
            f"UserInfo(username={self.username!r}, password={self.password and MASK!r}, "
            f"user_type={self.user_type!r}, user_status={self.user_status!r})"
        )


class PolicyEntryInfo(Body, kw_only=True):
    """An entry of a policy (`body/AclInfo.PolicyEntryInfo`).

    Attributes:
        resource: such as ``Topic:orders``, ``Group:shop*`` or ``*``.
        actions: such as ``Pub``.
        source_ips: addresses and networks; None for all.
        decision: ``Allow`` or ``Deny``.
    """

    resource: str | None = None
    actions: list[str] | None = None
    source_ips: list[str] | None = None
    decision: str | None = None


class PolicyInfo(Body, kw_only=True):
    """The entries of one type, ``Custom`` or ``Default`` (`body/AclInfo.PolicyInfo`)."""

    policy_type: str | None = None
    entries: list[PolicyEntryInfo] = field(default_factory=list)


class AclInfo(Body, kw_only=True):
    """The policies of a subject, ``User:name`` (`body/AclInfo`)."""

    subject: str | None = None
    policies: list[PolicyInfo] = field(default_factory=list)
