"""Requests about users."""

from __future__ import annotations

from pocketmq.protocol.requests.users import AclsRequest, DeleteAclRequest, UsersRequest
from pocketmq.protocol.wire.command import Command


def test_fields_have_rocketmqs_names() -> None:
    for request, fields in (
        (
            DeleteAclRequest(subject="User:u", policy_type="Default", resource="*"),
            {"subject": "User:u", "policyType": "Default", "resource": "*"},
        ),
        (
            AclsRequest(subject_filter="u", resource_filter="t"),
            {"subjectFilter": "u", "resourceFilter": "t"},
        ),
        (UsersRequest(filter="u"), {"filter": "u"}),
    ):
        assert Command(request.code, header=request).fields == fields
