"""Policies as they are written in requests and answers, checked (`auth/authorization/model`)."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from ipaddress import ip_network
from typing import TypeVar

from pocketmq.auth.rights.policies import (
    Acl,
    Action,
    Decision,
    PolicyEntry,
    PolicyType,
    Resource,
    ResourceType,
)
from pocketmq.protocol.bodies.users import (
    SUBJECT_PREFIX,
    AclInfo,
    PolicyEntryInfo,
    PolicyInfo,
)
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import ResponseError, response_error

ENTRIES_MAX = 1_000
"""Entries of one user's policies."""

EnumT = TypeVar("EnumT", bound=Enum)


def refused(remark: str) -> ResponseError:
    """Refuses a change of users or policies, with the code that RocketMQ has for it."""
    return response_error(ResponseCode.NO_PERMISSION, remark)


def named(kind: type[EnumT], text: str | None) -> EnumT | None:
    """The member of a value, in whatever case; None if there is none."""
    wanted = (text or "").strip().lower()
    return next((member for member in kind if str(member.value).lower() == wanted), None)


def subject_name(subject: str | None) -> str:
    """The user that a subject, ``User:name``, is about.

    Raises:
        ResponseError: it is no subject.
    """
    if not subject or subject[: len(SUBJECT_PREFIX)].lower() != SUBJECT_PREFIX.lower():
        raise refused("The subject is null.")
    return subject[len(SUBJECT_PREFIX) :]


def resource_of(text: str | None) -> Resource:
    """The resource that a text such as ``Topic:orders`` names; without a kind all resources.

    Raises:
        ResponseError: there is no such kind, or no name.
    """
    text = (text or "").strip()
    if text == "*":
        return Resource(ResourceType.ANY, "*")
    kind, colon, name = text.partition(":")
    found = named(ResourceType, kind)
    if not colon or not name or found in (None, ResourceType.ANY):
        raise refused("The resource is null.")
    assert found is not None, "it was looked at"
    return Resource(found, name)


def normal_resource(text: str | None) -> str:
    """The text of a resource in one spelling; what follows an asterisk is dropped.

    Raises:
        ResponseError: it is none.
    """
    resource = resource_of(text)
    if resource.kind is ResourceType.ANY:
        return "*"
    prefix, star, _ = resource.name.partition("*")
    return f"{resource.kind.value}:{prefix}{star}"


def entries_of(info: AclInfo) -> list[PolicyEntry]:
    """Reads the entries of a request.

    Raises:
        ResponseError: some of it cannot be understood; with RocketMQ's words.
    """
    if not info.policies or not any(policy.entries for policy in info.policies):
        raise refused("The policies is empty.")
    return [
        _entry(entry, named(PolicyType, policy.policy_type) or PolicyType.CUSTOM)
        for policy in info.policies
        for entry in policy.entries
    ]


def _entry(info: PolicyEntryInfo, policy_type: PolicyType) -> PolicyEntry:
    resource = normal_resource(info.resource)
    actions = [named(Action, name) for name in info.actions or ()]
    known = frozenset(action for action in actions if action is not None)
    if not known:
        raise refused("The actions is empty.")
    if Action.ANY in known:
        raise refused("The actions can not be Any.")
    decision = named(Decision, info.decision)
    if decision is None:
        raise refused("The decision is null or illegal.")
    source_ips = tuple(text.strip() for text in info.source_ips or () if text.strip())
    for text in source_ips:
        try:
            ip_network(text, strict=False)
        except ValueError:
            raise refused("The source ip is invalid.") from None
    return PolicyEntry(resource, known, decision, source_ips, policy_type)


def merged(acl: Acl | None, name: str, entries: Iterable[PolicyEntry]) -> Acl:
    """Policies with new entries, which replace those of the same type and resource.

    Raises:
        ResponseError: these are too many.
    """
    by_key = {
        (entry.policy_type, entry.resource): entry
        for entry in (*(() if acl is None else acl.entries), *entries)
    }
    if len(by_key) > ENTRIES_MAX:
        raise refused(
            f"User:{name} would have {len(by_key)} entries, allowed are {ENTRIES_MAX}: use "
            f"prefixes such as Topic:orders*"
        )
    return Acl(name, tuple(by_key.values()))


def without(acl: Acl, resource: str, policy_type: PolicyType) -> Acl:
    """Policies without the entry of one resource."""
    return Acl(
        acl.username,
        tuple(e for e in acl.entries if (e.policy_type, e.resource) != (policy_type, resource)),
    )


def info_of(acl: Acl, resource_filter: str = "") -> AclInfo:
    """Writes policies; with a filter, the entries whose resource contains it."""
    policies = []
    for policy_type in PolicyType:
        entries = [
            _entry_info(entry)
            for entry in acl.entries
            if entry.policy_type is policy_type and resource_filter in entry.resource
        ]
        if entries:
            policies.append(PolicyInfo(policy_type=policy_type.value, entries=entries))
    return AclInfo(subject=f"{SUBJECT_PREFIX}{acl.username}", policies=policies)


def _entry_info(entry: PolicyEntry) -> PolicyEntryInfo:
    return PolicyEntryInfo(
        resource=entry.resource,
        actions=[action.value for action in Action if action in entry.actions],
        source_ips=list(entry.source_ips) or None,
        decision=entry.decision.value,
    )
