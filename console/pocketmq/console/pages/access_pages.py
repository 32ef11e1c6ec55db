"""The pages of users, of their policies, and of the audit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, cast

from starlette.routing import BaseRoute

from pocketmq.console.api.access.audit_bodies import AuditQuery
from pocketmq.console.api.access.audit_calls import AuditCalls
from pocketmq.console.api.access.bodies import (
    AccessChanged,
    AccessQuery,
    ActionName,
    Decision,
    NewPolicy,
    NewUser,
    PolicyQuery,
    PolicyType,
    UserChange,
    UserStatus,
    UserType,
)
from pocketmq.console.api.access.user_calls import UserCalls
from pocketmq.console.api.bodies.topics import ListQuery
from pocketmq.console.api.callers import Clients
from pocketmq.console.pages.forms import Done, Form, Names
from pocketmq.console.pages.pages import Pages
from pocketmq.console.pages.rendering import path_text
from pocketmq.console.pages.typed import Typed
from pocketmq.console.pages.visits import Notice
from pocketmq.console.web.operations import Call
from pocketmq.protocol.errors import UsageError

PASSWORD_MAX = 256
RESOURCES_MAX = 100
"""As the API takes them."""

_ACTIONS = ("Pub", "Sub", "Create", "Update", "Delete", "Get", "List", "All")


class AccessPages:
    """Makes the paths of these pages.

    Args:
        users, audit: carry the operations out.
    """

    def __init__(self, users: UserCalls, audit: AuditCalls) -> None:
        self._users, self._audit = users, audit

    def __call__(self, pages: Pages) -> Iterable[BaseRoute]:
        """Returns the paths."""
        users, one = self._users, "/users/{user}"
        return [
            pages.page("/users", "users.html", users.listed, ListQuery),
            pages.page(one, "user.html", users.one),
            pages.page(f"{one}/explanation", "access.html", users.explain, AccessQuery),
            pages.page("/audit", "audit.html", self._audit.read, AuditQuery),
            *(route for form in self._forms() for route in pages.forms.routes(form)),
        ]

    def _forms(self) -> list[Form]:
        users, one = self._users, "/users/{user}"
        return [
            Form(
                path="/new-user",
                template="user_new.html",
                operation=users.create,
                read=_new_user,
                done=_done("was created", to_user=True),
                named=lambda typed: {"user": _needed(typed, "name", "the name of the user")},
            ),
            Form(
                path=f"{one}/settings",
                template="user_settings.html",
                operation=users.change,
                read=_user_change,
                done=_done("was changed", to_user=True),
                show=users.one,
            ),
            Form(
                path=f"{one}/delete",
                template="user_delete.html",
                operation=users.delete,
                read=lambda _typed, _names: None,
                done=_done("was deleted", to_user=False),
                show=users.one,
                confirm="user",
            ),
            Form(
                path=f"{one}/new-policy",
                template="policy_new.html",
                operation=users.put_policies,
                read=_new_policy,
                done=_done("has new policies", to_user=True),
                show=users.one,
            ),
            Form(
                path=f"{one}/delete-policy",
                template="policy_delete.html",
                operation=self._delete_policy,
                read=_policy_query,
                done=_done("has lost a policy", to_user=True),
                show=users.one,
            ),
        ]

    async def _delete_policy(self, clients: Clients, call: Call) -> AccessChanged:
        return await self._users.delete_policies(clients, replace(call, query=call.body, body=None))


def _needed(typed: Typed, name: str, what: str) -> str:
    text = typed.text(name)
    if text is None:
        raise UsageError(f"{what} is missing")
    return text


def _password(typed: Typed) -> str | None:
    password = typed["password"]
    if len(password) > PASSWORD_MAX:
        raise UsageError(f"the password is longer than {PASSWORD_MAX} characters")
    return password or None


def _new_user(typed: Typed, _: Names) -> NewUser:
    password = _password(typed)
    if password is None:
        raise UsageError("the password is missing")
    kind = typed.choice("type", "the type", ("Normal", "Super"))
    return NewUser(password=password, type=cast("UserType", kind))


def _user_change(typed: Typed, _: Names) -> UserChange:
    kind = typed.choice("type", "the type", ("", "Normal", "Super"))
    status = typed.choice("status", "the status", ("", "enable", "disable"))
    return UserChange(
        password=_password(typed),
        type=cast("UserType | None", kind or None),
        status=cast("UserStatus | None", status or None),
    )


def _new_policy(typed: Typed, _: Names) -> NewPolicy:
    resources = typed.lines("resources").split()
    if not 0 < len(resources) <= RESOURCES_MAX:
        raise UsageError(f"name 1 to {RESOURCES_MAX} resources, such as Topic:orders, one a line")
    actions = [action for action in _ACTIONS if typed.is_checked(f"action-{action}")]
    if not actions:
        raise UsageError("no action is chosen")
    decision = typed.choice("decision", "the decision", ("Allow", "Deny"))
    return NewPolicy(
        resources=resources,
        actions=cast("list[ActionName]", actions),
        decision=cast("Decision", decision),
        source_ips=[part.strip() for part in typed["sourceIps"].split(",") if part.strip()],
        type=_policy_type(typed),
    )


def _policy_query(typed: Typed, _: Names) -> PolicyQuery:
    resource = _needed(typed, "resource", "the resource of the policy")
    return PolicyQuery(resource=resource, type=_policy_type(typed))


def _policy_type(typed: Typed) -> PolicyType:
    return cast("PolicyType", typed.choice("type", "the type", ("Custom", "Default")))


def _done(what: str, *, to_user: bool) -> Any:
    """Tells what a form has done, and which brokers have not."""

    def done(changed: Any, _: Names) -> Done:
        assert isinstance(changed, AccessChanged)
        text = f"User {changed.user} {what} on {', '.join(changed.brokers)}."
        if changed.silent:
            missing = "; ".join(f"{one.broker}: {one.problem}" for one in changed.silent)
            text += f" Not done: {missing}."
        return Done(f"/users/{path_text(changed.user)}" if to_user else "/users", Notice(text))

    return done
