"""Requests about users and their policies: 3001 to 3010."""

from __future__ import annotations

from typing import ClassVar

from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.wire.header import RequestHeader


class CreateUserRequest(RequestHeader, kw_only=True):
    """Creates a user; the body is a `UserInfo`."""

    code: ClassVar[RequestCode] = RequestCode.AUTH_CREATE_USER

    username: str | None = None


class UpdateUserRequest(RequestHeader, kw_only=True):
    """Changes a user; what the body, a `UserInfo`, leaves out stays."""

    code: ClassVar[RequestCode] = RequestCode.AUTH_UPDATE_USER

    username: str | None = None


class DeleteUserRequest(RequestHeader, kw_only=True):
    """Deletes a user and its policies."""

    code: ClassVar[RequestCode] = RequestCode.AUTH_DELETE_USER

    username: str | None = None


class UserRequest(RequestHeader, kw_only=True):
    """Asks for a user; without a body in the answer there is none."""

    code: ClassVar[RequestCode] = RequestCode.AUTH_GET_USER

    username: str | None = None


class UsersRequest(RequestHeader, kw_only=True):
    """Asks for the users whose names contain a text."""

    code: ClassVar[RequestCode] = RequestCode.AUTH_LIST_USER

    filter: str | None = None


class CreateAclRequest(RequestHeader, kw_only=True):
    """Adds policies to a user, or replaces those of the same resources."""

    code: ClassVar[RequestCode] = RequestCode.AUTH_CREATE_ACL

    subject: str | None = None


class UpdateAclRequest(RequestHeader, kw_only=True):
    """Does what `CreateAclRequest` does."""

    code: ClassVar[RequestCode] = RequestCode.AUTH_UPDATE_ACL

    subject: str | None = None


class DeleteAclRequest(RequestHeader, kw_only=True):
    """Deletes a user's policies of one resource, or all of them."""

    code: ClassVar[RequestCode] = RequestCode.AUTH_DELETE_ACL

    subject: str | None = None
    policy_type: str | None = None
    resource: str | None = None


class AclRequest(RequestHeader, kw_only=True):
    """Asks for a user's policies; without a body in the answer there are none."""

    code: ClassVar[RequestCode] = RequestCode.AUTH_GET_ACL

    subject: str | None = None


class AclsRequest(RequestHeader, kw_only=True):
    """Asks for the policies whose subjects and resources contain texts."""

    code: ClassVar[RequestCode] = RequestCode.AUTH_LIST_ACL

    subject_filter: str | None = None
    resource_filter: str | None = None


class UserTableRequest(RequestHeader, kw_only=True):
    """Asks a broker for all its users and their policies, encrypted (PocketMQ's own, 31004).

    Attributes:
        version: that the caller has; there is no body in the answer if it is the newest.
    """

    code: ClassVar[RequestCode] = RequestCode.AUTH_GET_TABLE

    version: int = 0
