"""The operations on users and their policies. Passwords are taken, and never given."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from pocketmq.auth.rights.verdicts import explained
from pocketmq.client import Admin
from pocketmq.console.api.access.bodies import (
    AccessChanged,
    AccessExplanation,
    AccessQuery,
    AccessVerdict,
    NewPolicy,
    NewUser,
    Policy,
    PolicyQuery,
    User,
    UserChange,
    UserRights,
    Users,
    UserVersion,
)
from pocketmq.console.api.bodies.topics import ListQuery
from pocketmq.console.api.callers import Callers, Clients
from pocketmq.console.api.masters import SilentBroker, Told, ask_masters, change_masters
from pocketmq.console.api.names import part_of
from pocketmq.console.api.paths import PREFIX
from pocketmq.console.web.operations import Call, Operation
from pocketmq.console.web.problems import ProblemError, not_found
from pocketmq.protocol.bodies.users import AclInfo, PolicyEntryInfo, UserInfo
from pocketmq.protocol.errors import NotFoundError, UsageError


class UserCalls:
    """Lists, shows, creates, changes and deletes users and their policies.

    Each broker keeps users of its own; what is changed is changed on all masters.

    Args:
        callers: their clients.
    """

    def __init__(self, callers: Callers) -> None:
        self._callers = callers

    def operations(self) -> list[Operation]:
        """Returns the operations of this family."""
        serve = self._callers.serve
        one = f"{PREFIX}/users/{{user}}"
        return [
            Operation(
                "GET", f"{PREFIX}/users", "listUsers", "Users by name.",
                serve(self.listed), Users, query=ListQuery,
            ),
            Operation(
                "GET", one, "getUser", "A user with policies.", serve(self.one), UserRights,
            ),
            Operation(
                "POST", one, "createUser", "Create a user on all brokers; 409 if there is one.",
                serve(self.create), AccessChanged, body=NewUser, status=201,
            ),
            Operation(
                "PUT", one, "changeUser",
                "Change a user's password, type or status, from the next request on.",
                serve(self.change), AccessChanged, body=UserChange,
            ),
            Operation(
                "DELETE", one, "deleteUser", "Delete a user and the user's policies.",
                serve(self.delete), AccessChanged,
            ),
            Operation(
                "PUT", f"{one}/policies", "putPolicies",
                "Add entries to a user's policies; those of the same resource are replaced.",
                serve(self.put_policies), AccessChanged, body=NewPolicy,
            ),
            Operation(
                "DELETE", f"{one}/policies", "deletePolicies",
                "Delete the entry of a resource from a user's policies, or all of a type.",
                serve(self.delete_policies), AccessChanged, query=PolicyQuery,
            ),
            Operation(
                "GET", f"{one}/explanation", "explainAccess",
                "Whether a user may do something, and which entry decides.",
                serve(self.explain), AccessExplanation, query=AccessQuery,
            ),
        ]  # fmt: skip

    async def listed(self, clients: Clients, call: Call) -> Users:
        """Lists users."""
        admin = clients.admin

        async def ask(address: str) -> list[UserInfo]:
            (found,) = (await admin.users(broker_addr=address)).values()
            return found

        told = await ask_masters(admin, ask)
        versions: dict[str, dict[str, UserInfo]] = {}
        for broker, infos in told.answers.items():
            for info in infos:
                versions.setdefault(info.username or "", {})[broker] = info
        total, part, behind = part_of(versions, call.query)
        users = [User(name=name, versions=_versions(versions[name])) for name in part]
        return Users(total=total, users=users, silent=told.silent, next=behind)

    async def one(self, clients: Clients, call: Call) -> UserRights:
        """Shows a user."""
        name = call.path["user"]
        told = await _rights(clients.admin, name)
        known = _known(name, told)
        return UserRights(
            name=name,
            versions=_versions({broker: info for broker, (info, _) in known.items()}),
            policies=_policies({broker: acl for broker, (_, acl) in known.items()}),
            silent=told.silent,
        )

    async def create(self, clients: Clients, call: Call) -> AccessChanged:
        """Creates a user."""
        self._callers.check_writes()
        name, new, admin = call.path["user"], call.body, clients.admin
        assert isinstance(new, NewUser)
        if any((await _rights(admin, name)).answers.values()):
            raise ProblemError(
                409, "The user exists", f"there is a user {name!r}", "change that user, instead"
            )
        return await self._changed(
            clients,
            name,
            lambda address: admin.create_user(
                name, new.password, user_type=new.type, broker_addr=address
            ),
        )

    async def change(self, clients: Clients, call: Call) -> AccessChanged:
        """Changes a user."""
        self._callers.check_writes()
        name, wanted, admin = call.path["user"], call.body, clients.admin
        assert isinstance(wanted, UserChange)
        if wanted.password is None and wanted.type is None and wanted.status is None:
            raise UsageError("nothing is to be changed: give a password, a type or a status")
        _known(name, await _rights(admin, name))
        return await self._changed(
            clients,
            name,
            lambda address: admin.update_user(
                name,
                password=wanted.password,
                user_type=wanted.type,
                user_status=wanted.status,
                broker_addr=address,
            ),
        )

    async def delete(self, clients: Clients, call: Call) -> AccessChanged:
        """Deletes a user."""
        self._callers.check_writes()
        name, admin = call.path["user"], clients.admin
        _known(name, await _rights(admin, name))
        return await self._changed(
            clients, name, lambda address: admin.delete_user(name, broker_addr=address)
        )

    async def put_policies(self, clients: Clients, call: Call) -> AccessChanged:
        """Adds or replaces entries."""
        self._callers.check_writes()
        name, new, admin = call.path["user"], call.body, clients.admin
        assert isinstance(new, NewPolicy)
        _known(name, await _rights(admin, name))
        entries = [
            PolicyEntryInfo(
                resource=resource,
                actions=list(new.actions),
                source_ips=new.source_ips or None,
                decision=new.decision,
            )
            for resource in new.resources
        ]
        return await self._changed(
            clients,
            name,
            lambda address: admin.create_acl(
                name, entries, policy_type=new.type, broker_addr=address
            ),
        )

    async def delete_policies(self, clients: Clients, call: Call) -> AccessChanged:
        """Deletes entries."""
        self._callers.check_writes()
        name, query, admin = call.path["user"], call.query, clients.admin
        assert isinstance(query, PolicyQuery)
        known = _known(name, await _rights(admin, name))
        policies = _policies({broker: acl for broker, (_, acl) in known.items()})
        if not any(
            policy.type == query.type and query.resource in (None, policy.resource)
            for policy in policies
        ):
            wanted = query.resource or "*"
            raise not_found(f"{query.type} entry", wanted, f"GET {PREFIX}/users/{name}")
        return await self._changed(
            clients,
            name,
            lambda address: admin.delete_acl(
                name, query.resource, policy_type=query.type, broker_addr=address
            ),
        )

    async def explain(self, clients: Clients, call: Call) -> AccessExplanation:
        """Says whether a user may do something."""
        name, query = call.path["user"], call.query
        assert isinstance(query, AccessQuery)
        told = await _rights(clients.admin, name)
        verdicts = []
        for broker, (info, acl) in _known(name, told).items():
            found = explained(info, acl, query.action, query.resource, query.ip)
            verdicts.append(
                AccessVerdict(
                    broker=broker,
                    is_allowed=found.is_allowed,
                    entry=found.entry,
                    reason=found.reason,
                )
            )
        return AccessExplanation(
            user=name,
            action=query.action,
            resource=query.resource,
            ip=query.ip,
            is_allowed=all(verdict.is_allowed for verdict in verdicts),
            verdicts=verdicts,
            silent=told.silent,
        )

    async def _changed(
        self, clients: Clients, user: str, change: Callable[[str], Awaitable[object]]
    ) -> AccessChanged:
        told = await change_masters(clients.admin, change)
        return AccessChanged(user=user, brokers=sorted(told.answers), silent=told.silent)


Rights = tuple[UserInfo, AclInfo]


async def _rights(admin: Admin, name: str) -> Told[Rights | None]:
    """A user and the policies, by broker; None where there is no such user."""

    async def ask(address: str) -> Rights | None:
        try:
            (info,) = (await admin.user(name, broker_addr=address)).values()
        except NotFoundError:
            return None
        (acl,) = (await admin.acl(name, broker_addr=address)).values()
        return info, acl

    return await ask_masters(admin, ask)


def _known(name: str, told: Told[Rights | None]) -> dict[str, Rights]:
    """Those brokers that know the user.

    Raises:
        ProblemError: 404, no broker that answers does; 503, no broker answers.
    """
    known = {broker: rights for broker, rights in told.answers.items() if rights is not None}
    if known:
        return known
    if not told.answers:
        raise ProblemError(
            503, "No broker answers", _reasons(told.silent), f"see GET {PREFIX}/cluster"
        )
    raise not_found("user", name, f"GET {PREFIX}/users")


def _reasons(silent: list[SilentBroker]) -> str:
    return "; ".join(f"{one.broker}: {one.problem}" for one in silent) or "there is no broker"


def _versions(infos: Mapping[str, UserInfo]) -> list[UserVersion]:
    brokers: dict[tuple[str, str], list[str]] = {}
    for broker, info in sorted(infos.items()):
        brokers.setdefault((info.user_type or "", info.user_status or ""), []).append(broker)
    return [
        UserVersion(type=kind, status=status, brokers=names)
        for (kind, status), names in sorted(brokers.items())
    ]


def _policies(acls: Mapping[str, AclInfo]) -> list[Policy]:
    brokers: dict[tuple[str, tuple[str, ...], tuple[str, ...], str, str], list[str]] = {}
    for broker, acl in sorted(acls.items()):
        for policy in acl.policies:
            for entry in policy.entries:
                key = (
                    entry.resource or "",
                    tuple(entry.actions or ()),
                    tuple(entry.source_ips or ()),
                    entry.decision or "",
                    policy.policy_type or "Custom",
                )
                brokers.setdefault(key, []).append(broker)
    return [
        Policy(
            resource=resource,
            actions=list(actions),
            source_ips=list(source_ips),
            decision=decision,
            type=kind,
            brokers=names,
        )
        for (resource, actions, source_ips, decision, kind), names in sorted(brokers.items())
    ]
