"""Users and their policies: 3001 to 3010 (`AdminBrokerProcessor`, `tools/command/auth`).

RocketMQ lets whoever may update the cluster give rights to anybody, so also to oneself. Here only
Super users change users and policies.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import msgspec

from pocketmq.auth.directory import UserDirectory
from pocketmq.auth.guard import USER
from pocketmq.auth.refused import NAME_LENGTH_MAX
from pocketmq.auth.rights.acl_texts import (
    entries_of,
    info_of,
    merged,
    named,
    normal_resource,
    refused,
    subject_name,
    without,
)
from pocketmq.auth.rights.policies import PolicyType
from pocketmq.auth.users import User, UserStatus, UserType
from pocketmq.broker.registration.telling import UserTelling
from pocketmq.protocol.bodies.users import AclInfo, UserInfo
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.errors import response_error
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
    UserTableRequest,
)
from pocketmq.protocol.signing import MASK
from pocketmq.protocol.wire import loose_json
from pocketmq.protocol.wire.command import Command
from pocketmq.runtime.clock import Clock
from pocketmq.transport.connection import Connection, Handler

log = logging.getLogger("pocketmq.broker")

USERS_MAX = 10_000
"""Users of one broker."""

SECRET_LENGTH_MAX = 1_024
"""Letters of a password."""

DONE = "not set any response code"
"""RocketMQ's remark on a success of these requests."""


class UserTableHandler:
    """Answers other servers of the cluster with all users, encrypted.

    Args:
        telling: has the table.
    """

    def __init__(self, telling: UserTelling) -> None:
        self._telling = telling

    def table(self) -> dict[int, Handler]:
        """The handler by its request code."""
        return {UserTableRequest.code: self.user_table}

    def user_table(self, command: Command, connection: Connection) -> Command:
        """31004: answers with the table, unless the caller has its newest version."""
        if _caller(connection) != self._telling.server_name:
            raise refused("only servers of the cluster may ask for all users")
        is_known = command.read(UserTableRequest).version == self._telling.version
        return Command(ResponseCode.SUCCESS, body=b"" if is_known else self._telling.body())


class UserHandlers:
    """Creates, changes, deletes and shows users and their policies.

    Args:
        directory: of the broker.
        clock: dates changes.
        shows_passwords: whether Super users are answered the passwords (RocketMQ does it for all).
    """

    def __init__(self, directory: UserDirectory, clock: Clock, *, shows_passwords: bool) -> None:
        self._directory, self._clock = directory, clock
        self._shows_passwords = shows_passwords

    def table(self) -> dict[int, Handler]:
        """The handlers by request code."""
        return {
            RequestCode.AUTH_CREATE_USER: self.create_user,
            RequestCode.AUTH_UPDATE_USER: self.update_user,
            RequestCode.AUTH_DELETE_USER: self.delete_user,
            RequestCode.AUTH_GET_USER: self.user,
            RequestCode.AUTH_LIST_USER: self.users,
            RequestCode.AUTH_CREATE_ACL: self.update_acl,
            RequestCode.AUTH_UPDATE_ACL: self.update_acl,
            RequestCode.AUTH_DELETE_ACL: self.delete_acl,
            RequestCode.AUTH_GET_ACL: self.acl,
            RequestCode.AUTH_LIST_ACL: self.acls,
        }

    # -- users --------------------------------------------------------------------------------

    def create_user(self, command: Command, connection: Connection) -> Command:
        """3001: creates a user."""
        info = UserInfo.of_request(command.body)
        name = _username(command.read(CreateUserRequest).username or info.username)
        caller = self._super_caller(connection)
        if not info.password:
            raise refused("password can not be blank")
        if self._directory.user(name) is not None:
            raise refused("The user is existed")
        if len(self._directory.users()) >= USERS_MAX:
            raise refused(f"there are {USERS_MAX} users, which is the limit")
        user = User(
            name,
            _password(info.password),
            named(UserType, info.user_type) or UserType.NORMAL,
            named(UserStatus, info.user_status) or UserStatus.ENABLE,
            self._clock.now_ms(),
        )
        self._directory.put_user(user)
        log.info("User:%s created User:%s (%s)", caller, name, user.user_type.value)
        return Command(ResponseCode.SUCCESS, remark=DONE)

    def update_user(self, command: Command, connection: Connection) -> Command:
        """3002: changes what is given of a user."""
        info = UserInfo.of_request(command.body)
        name = _username(command.read(UpdateUserRequest).username or info.username)
        caller = self._super_caller(connection)
        known = self._directory.user(name)
        if known is None:
            raise refused("The user is not exist")
        user = msgspec.structs.replace(
            known,
            password=_password(info.password) if info.password else known.password,
            user_type=named(UserType, info.user_type) or known.user_type,
            user_status=named(UserStatus, info.user_status) or known.user_status,
            changed_ms=self._now_ms(known),
        )
        if name == caller and (
            user.user_type is not UserType.SUPER or user.user_status is not UserStatus.ENABLE
        ):
            raise refused(f"User:{name} may not lock itself out; another Super user may do it")
        self._directory.put_user(user)
        log.info("User:%s changed User:%s", caller, name)
        return Command(ResponseCode.SUCCESS, remark=DONE)

    def delete_user(self, command: Command, connection: Connection) -> Command:
        """3003: deletes a user and its policies."""
        name = _username(command.read(DeleteUserRequest).username)
        caller = self._super_caller(connection)
        if name == caller:
            raise refused(f"User:{name} may not delete itself; another Super user may do it")
        self._directory.delete_user(name)
        log.info("User:%s deleted User:%s", caller, name)
        return Command(ResponseCode.SUCCESS, remark=DONE)

    def user(self, command: Command, connection: Connection) -> Command:
        """3004: answers with a user, without a body if there is none."""
        user = self._directory.user(_username(command.read(UserRequest).username))
        body = b"" if user is None else self._info(user, connection).encode()
        return Command(ResponseCode.SUCCESS, remark=DONE, body=body)

    def users(self, command: Command, connection: Connection) -> Command:
        """3005: answers with the users whose names contain a text."""
        wanted = command.read(UsersRequest).filter or ""
        found = [
            self._info(user, connection)
            for user in self._directory.users()
            if wanted in user.username
        ]
        return _listed(found)

    def _info(self, user: User, connection: Connection) -> UserInfo:
        is_shown = self._shows_passwords and self._is_super(_caller(connection))
        return UserInfo(
            username=user.username,
            password=user.password if is_shown else MASK,
            user_type=user.user_type.value,
            user_status=user.user_status.value,
        )

    # -- policies -----------------------------------------------------------------------------

    def update_acl(self, command: Command, connection: Connection) -> Command:
        """3006, 3007: adds entries, or replaces those of the same resources."""
        info = AclInfo.of_request(command.body)
        name = subject_name(command.read(CreateAclRequest).subject or info.subject)
        caller = self._super_caller(connection)
        user = self._directory.user(name)
        if user is None:
            raise refused(f"The subject of User:{name} is not exist.")
        acl = merged(self._directory.acl(name), name, entries_of(info))
        self._directory.put_policies(acl, self._now_ms(user))
        log.info("User:%s changed the policies of User:%s", caller, name)
        return Command(ResponseCode.SUCCESS, remark=DONE)

    def delete_acl(self, command: Command, connection: Connection) -> Command:
        """3008: deletes the entry of a resource, or all policies."""
        header = command.read(DeleteAclRequest)
        name = subject_name(header.subject)
        caller = self._super_caller(connection)
        user, acl = self._directory.user(name), self._directory.acl(name)
        if user is None:
            raise refused("The subject is not exist.")
        if acl is None:
            raise refused("The acl is not exist.")
        left = msgspec.structs.replace(acl, entries=())
        if header.resource:
            policy_type = named(PolicyType, header.policy_type) or PolicyType.CUSTOM
            left = without(acl, normal_resource(header.resource), policy_type)
        self._directory.put_policies(left, self._now_ms(user))
        log.info("User:%s deleted policies of User:%s", caller, name)
        return Command(ResponseCode.SUCCESS, remark=DONE)

    def acl(self, command: Command, _: Connection) -> Command:
        """3009: answers with a user's policies, without a body if there are none."""
        name = subject_name(command.read(AclRequest).subject)
        if self._directory.user(name) is None:
            raise refused("The subject is not exist.")
        acl = self._directory.acl(name)
        body = b"" if acl is None else info_of(acl).encode()
        return Command(ResponseCode.SUCCESS, remark=DONE, body=body)

    def acls(self, command: Command, _: Connection) -> Command:
        """3010: answers with the policies whose subjects and resources contain texts."""
        header = command.read(AclsRequest)
        infos = [info_of(acl, header.resource_filter or "") for acl in self._directory.acls()]
        wanted = header.subject_filter or ""
        return _listed([i for i in infos if i.policies and wanted in (i.subject or "")])

    def _now_ms(self, user: User) -> int:
        """A time after the user's last change: name servers take the newest version."""
        return max(user.changed_ms + 1, self._clock.now_ms())

    def _super_caller(self, connection: Connection) -> str:
        """The name of the Super user who asks.

        Raises:
            ResponseError: the caller is none.
        """
        name = _caller(connection)
        if not self._is_super(name):
            raise refused("only Super users may change users and their policies")
        return name

    def _is_super(self, name: str) -> bool:
        user = self._directory.user(name)
        return user is not None and user.user_type is UserType.SUPER


def _caller(connection: Connection) -> str:
    return str(connection.attributes.get(USER, ""))


def _username(name: str | None) -> str:
    name = (name or "").strip()
    if not name:
        raise response_error(ResponseCode.INVALID_PARAMETER, "The username is blank")
    if len(name) > NAME_LENGTH_MAX:
        raise response_error(
            ResponseCode.INVALID_PARAMETER,
            f"the username has {len(name)} letters, allowed are {NAME_LENGTH_MAX}",
        )
    return name


def _password(text: str) -> str:
    if text == MASK:
        raise refused(
            f"the password is {MASK}, which only stands for passwords that are not shown: give the "
            f"password itself; to copy users from a broker, set authenticationPasswordVisible there"
        )
    if len(text) > SECRET_LENGTH_MAX:
        raise refused(f"the password has {len(text)} letters, allowed are {SECRET_LENGTH_MAX}")
    return text


def _listed(infos: Sequence[UserInfo | AclInfo]) -> Command:
    body = loose_json.encode(list(infos)) if infos else b""
    return Command(ResponseCode.SUCCESS, remark=DONE, body=body)
