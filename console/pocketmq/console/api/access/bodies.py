"""Bodies about users and their policies."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, field

from pocketmq.console.api.masters import SilentBroker
from pocketmq.console.web.bodies import RequestBody, ResponseBody
from pocketmq.protocol.signing import MASK

UserType = Literal["Normal", "Super"]
UserStatus = Literal["enable", "disable"]
PolicyType = Literal["Custom", "Default"]
ActionName = Literal["Pub", "Sub", "Create", "Update", "Delete", "Get", "List", "All"]
Decision = Literal["Allow", "Deny"]
Password = Annotated[str, Meta(min_length=1, max_length=256)]
Resource = Annotated[str, Meta(min_length=1, max_length=300)]


class UserVersion(ResponseBody):
    """A user as some brokers have it.

    Attributes:
        type: ``Normal``, who may what the policies allow, or ``Super``, who may all.
        status: ``enable``, or ``disable`` of a user whose requests are refused.
        brokers: those that have it so.
    """

    type: str
    status: str
    brokers: list[str]


class User(ResponseBody):
    """A user; several versions if brokers differ."""

    name: str
    versions: list[UserVersion]


class Users(ResponseBody):
    """Users by name.

    Attributes:
        total: how many there are that fit, shown or not.
        silent: brokers that did not tell theirs.
        next: give it as `after` for those that follow; null at the end.
    """

    total: int
    users: list[User]
    silent: list[SilentBroker]
    next: str | None = None


class Policy(ResponseBody):
    """An entry of a user's policies.

    Attributes:
        resource: such as ``Topic:orders``, ``Group:shop*`` or ``*``.
        actions: such as ``Pub``.
        source_ips: the addresses and networks that it is for; empty for all.
        decision: ``Allow`` or ``Deny``.
        type: ``Custom``, or ``Default`` of entries that count where no other fits.
        brokers: those that have it.
    """

    resource: str
    actions: list[str]
    source_ips: list[str]
    decision: str
    type: str
    brokers: list[str]


class UserRights(ResponseBody):
    """A user with policies."""

    name: str
    versions: list[UserVersion]
    policies: list[Policy]
    silent: list[SilentBroker]


class NewUser(RequestBody):
    """A user to create."""

    password: Password
    type: UserType = "Normal"

    def __repr__(self) -> str:
        return f"NewUser(password={MASK!r}, type={self.type!r})"


class UserChange(RequestBody):
    """What is to be changed of a user; null leaves it as it is."""

    password: Password | None = None
    type: UserType | None = None
    status: UserStatus | None = None

    def __repr__(self) -> str:
        hidden = self.password and MASK
        return f"UserChange(password={hidden!r}, type={self.type!r}, status={self.status!r})"


class NewPolicy(RequestBody):
    """Entries of a user's policies, of the same actions; those of the same resource are replaced.

    Attributes:
        resources: such as ``Topic:orders``, ``Group:shop*`` or ``*``.
        source_ips: only from these addresses and networks; empty for all.
        type: ``Default`` for entries that count where no other fits.
    """

    resources: Annotated[list[Resource], Meta(min_length=1, max_length=100)]
    actions: Annotated[list[ActionName], Meta(min_length=1, max_length=8)]
    decision: Decision = "Allow"
    source_ips: Annotated[list[str], Meta(max_length=100)] = field(default_factory=list)
    type: PolicyType = "Custom"


class PolicyQuery(RequestBody):
    """Which entries are to be deleted.

    Attributes:
        resource: of the entry; null for all of the type.
        type: of the entries.
    """

    resource: Resource | None = None
    type: PolicyType = "Custom"


class AccessChanged(ResponseBody):
    """What has become of a change.

    Attributes:
        user: the user that was changed.
        brokers: those that have changed it.
        silent: those that have not, and why.
    """

    user: str
    brokers: list[str]
    silent: list[SilentBroker]


class AccessQuery(RequestBody):
    """What a user wants to do.

    Attributes:
        action: Pub, Sub, Create, Update, Delete, Get or List.
        resource: such as ``Topic:orders``.
        ip: the address that asks.
    """

    action: str
    resource: str
    ip: str = "127.0.0.1"


class AccessVerdict(ResponseBody):
    """What a broker decides.

    Attributes:
        entry: the entry that decides; empty if none does.
    """

    broker: str
    is_allowed: bool
    entry: str
    reason: str


class AccessExplanation(ResponseBody):
    """Whether a user may do something, by broker.

    Attributes:
        is_allowed: whether all brokers that answer allow it.
    """

    user: str
    action: str
    resource: str
    ip: str
    is_allowed: bool
    verdicts: list[AccessVerdict]
    silent: list[SilentBroker]
