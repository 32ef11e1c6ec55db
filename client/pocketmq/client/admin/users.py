"""Administration of users and their policies (ACL 2.0)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from pocketmq.client.admin.calls import AdminCalls
from pocketmq.protocol.bodies.users import (
    SUBJECT_PREFIX,
    AclInfo,
    PolicyEntryInfo,
    PolicyInfo,
    UserInfo,
)
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import NotFoundError
from pocketmq.protocol.requests.users import (
    AclRequest,
    AclsRequest,
    CreateAclRequest,
    CreateUserRequest,
    DeleteAclRequest,
    DeleteUserRequest,
    UpdateUserRequest,
    UserRequest,
    UsersRequest,
)
from pocketmq.protocol.wire.header import RequestHeader


class UserAdmin(AdminCalls):
    """The methods of `Admin` for users and policies.

    Each broker keeps users of its own: methods that change them do so on all masters of a cluster,
    or on one broker. Only Super users may call these.
    """

    # -- users --------------------------------------------------------------------------------

    async def create_user(
        self,
        name: str,
        password: str,
        *,
        user_type: str = "Normal",
        cluster: str | None = None,
        broker_addr: str | None = None,
    ) -> list[str]:
        """Creates a user.

        Args:
            name: of the user, its access key.
            password: its secret key.
            user_type: ``Normal``, who may what its policies allow, or ``Super``, who may all.
            cluster, broker_addr: where.

        Returns:
            The addresses of the brokers that know it now.

        Raises:
            NoPermissionError: there is such a user already, or the caller may not create any.
        """
        info = UserInfo(username=name, password=password, user_type=user_type)
        return await self._change(
            CreateUserRequest(username=name), info.encode(), cluster, broker_addr
        )

    async def update_user(
        self,
        name: str,
        *,
        password: str | None = None,
        user_type: str | None = None,
        user_status: str | None = None,
        cluster: str | None = None,
        broker_addr: str | None = None,
    ) -> list[str]:
        """Changes what is given of a user, from its next request on.

        Args:
            name: of the user.
            password: its new secret key.
            user_type: ``Normal`` or ``Super``.
            user_status: ``enable`` or ``disable``; the latter closes its connections.
            cluster, broker_addr: where.

        Returns:
            The addresses of the brokers that changed it.

        Raises:
            NoPermissionError: there is no such user, or the caller may not change it.
        """
        info = UserInfo(password=password, user_type=user_type, user_status=user_status)
        return await self._change(
            UpdateUserRequest(username=name), info.encode(), cluster, broker_addr
        )

    async def delete_user(
        self, name: str, *, cluster: str | None = None, broker_addr: str | None = None
    ) -> list[str]:
        """Deletes a user and its policies; one that does not exist is no error.

        Args:
            name: of the user.
            cluster, broker_addr: where.

        Returns:
            The addresses of the brokers that do not know it any more.
        """
        return await self._change(DeleteUserRequest(username=name), b"", cluster, broker_addr)

    async def user(
        self, name: str, *, cluster: str | None = None, broker_addr: str | None = None
    ) -> dict[str, UserInfo]:
        """Returns a user by the addresses of the brokers that know it.

        Args:
            name: of the user.
            cluster, broker_addr: where.

        Raises:
            NotFoundError: no broker knows it.
        """
        bodies = await self._read(UserRequest(username=name), cluster, broker_addr)
        found = {address: UserInfo.decode(body) for address, body in bodies.items() if body}
        if not found:
            raise NotFoundError(
                ResponseCode.QUERY_NOT_FOUND, f"there is no user {name} on {', '.join(bodies)}"
            )
        return found

    async def users(
        self, name_part: str = "", *, cluster: str | None = None, broker_addr: str | None = None
    ) -> dict[str, list[UserInfo]]:
        """Returns the users whose names contain a text, by the addresses of the brokers.

        Passwords are masked, unless the broker shows them (authenticationPasswordVisible).
        """
        bodies = await self._read(UsersRequest(filter=name_part or None), cluster, broker_addr)
        return {
            address: msgspec.json.decode(body or b"[]", type=list[UserInfo])
            for address, body in bodies.items()
        }

    # -- policies -----------------------------------------------------------------------------

    async def create_acl(
        self,
        user: str,
        entries: Sequence[PolicyEntryInfo],
        *,
        policy_type: str = "Custom",
        cluster: str | None = None,
        broker_addr: str | None = None,
    ) -> list[str]:
        """Adds entries to a user's policies; an entry of the same resource is replaced.

        Args:
            user: the name.
            entries: what is allowed or denied.
            policy_type: ``Custom``, or ``Default`` for entries that count where no other fits.
            cluster, broker_addr: where.

        Returns:
            The addresses of the brokers that have them now.

        Raises:
            NoPermissionError: there is no such user, an entry cannot be understood, or the caller
                may not do it.
        """
        policy = PolicyInfo(policy_type=policy_type, entries=list(entries))
        subject = f"{SUBJECT_PREFIX}{user}"
        body = AclInfo(subject=subject, policies=[policy]).encode()
        return await self._change(CreateAclRequest(subject=subject), body, cluster, broker_addr)

    async def delete_acl(
        self,
        user: str,
        resource: str | None = None,
        *,
        policy_type: str = "Custom",
        cluster: str | None = None,
        broker_addr: str | None = None,
    ) -> list[str]:
        """Deletes the entry of a resource from a user's policies, or all policies.

        Args:
            user: the name.
            resource: such as ``Topic:orders``; None for all.
            policy_type: of the entry.
            cluster, broker_addr: where.

        Returns:
            The addresses of the brokers that deleted it.

        Raises:
            NoPermissionError: there is no such user, or it has no policies.
        """
        request = DeleteAclRequest(
            subject=f"{SUBJECT_PREFIX}{user}", policy_type=policy_type, resource=resource
        )
        return await self._change(request, b"", cluster, broker_addr)

    async def acl(
        self, user: str, *, cluster: str | None = None, broker_addr: str | None = None
    ) -> dict[str, AclInfo]:
        """Returns a user's policies, if need be without entries, by broker addresses.

        Args:
            user: the name.
            cluster, broker_addr: where.

        Raises:
            NoPermissionError: there is no such user.
        """
        subject = f"{SUBJECT_PREFIX}{user}"
        bodies = await self._read(AclRequest(subject=subject), cluster, broker_addr)
        return {
            address: AclInfo.decode(body) if body else AclInfo(subject=subject)
            for address, body in bodies.items()
        }

    async def acls(
        self,
        user_part: str = "",
        resource_part: str = "",
        *,
        cluster: str | None = None,
        broker_addr: str | None = None,
    ) -> dict[str, list[AclInfo]]:
        """Returns the policies whose users and resources contain texts, by broker addresses."""
        request = AclsRequest(
            subject_filter=user_part or None, resource_filter=resource_part or None
        )
        bodies = await self._read(request, cluster, broker_addr)
        return {
            address: msgspec.json.decode(body or b"[]", type=list[AclInfo])
            for address, body in bodies.items()
        }

    async def _change(
        self, request: RequestHeader, body: bytes, cluster: str | None, broker_addr: str | None
    ) -> list[str]:
        addresses = await self._brokers(cluster, broker_addr)
        for address in addresses:
            await self._ask(address, request, body)
        return addresses

    async def _read(
        self, request: RequestHeader, cluster: str | None, broker_addr: str | None
    ) -> dict[str, bytes]:
        addresses = await self._brokers(cluster, broker_addr)
        answers = await asyncio.gather(*(self._ask(address, request) for address in addresses))
        return {a: answer.body for a, answer in zip(addresses, answers, strict=True)}
