"""Bodies about brokers, broker sets, their settings, and name servers."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, field

from pocketmq.console.web.bodies import RequestBody, ResponseBody

Role = Literal["leader", "follower", "waiting", "absent", "master", "slave"]
Origin = Literal["default", "configuration", "run time", "unknown"]

CHANGES_MAX = 100
"""Settings that one request may change."""

ValueText = Annotated[str, Meta(max_length=10_000)]


class Member(ResponseBody):
    """A broker of a name: alone, or a member of a broker set.

    Attributes:
        id: 0 of a master; in a broker set the id of the member.
        address: where the member is reached.
        role: ``leader``, ``follower``, ``waiting`` (follows nobody) or ``absent`` (does not answer)
            of a broker set; else ``master`` or ``slave``.
        in_sync: whether a member has everything that was acknowledged; null if nobody tells.
        lag: bytes that a follower lacks; null if nobody tells.
        told: why a member neither leads nor follows, or what is wrong with the member.
        problem: why the member did not tell figures; null if it did, or has none.
        version: as the broker tells it.
        started_ms: when the broker was started.
        figures: runtime figures by RocketMQ's names.
    """

    id: int
    address: str
    role: Role
    in_sync: bool | None = None
    lag: int | None = None
    told: str = ""
    problem: str | None = None
    version: str | None = None
    started_ms: int | None = None
    figures: dict[str, str] = field(default_factory=dict)


class BrokerView(ResponseBody):
    """A broker, or a broker set, with members.

    Attributes:
        is_set: whether it is a broker set; null if no member tells.
        leader: the id of the member that leads; null if none does.
        epoch: of the last leadership.
        in_sync: the ids of the members in sync.
        changed_ms: when the leader changed last.
        reason: why.
        arbiter: ``answers``, ``away``, or ``knows no such set``.
    """

    cluster: str
    name: str
    is_set: bool | None
    members: list[Member]
    leader: int | None = None
    epoch: int | None = None
    in_sync: list[int] | None = None
    changed_ms: int | None = None
    reason: str | None = None
    arbiter: str | None = None


class SettingsQuery(RequestBody):
    """Whose settings are wanted.

    Attributes:
        address: of the member; null for the master, or the leader of a broker set.
        changed: only settings that are not as by default.
        contains: only settings with this in their names, whatever the case.
    """

    address: str | None = None
    changed: bool = False
    contains: str = ""


class Setting(ResponseBody):
    """A setting of a broker.

    Attributes:
        value: in force; null if it is unset.
        default: what it is if nobody sets it; null of Apache's brokers, which do not tell.
        configured: what the configuration says, or else the default.
        origin: ``default``, ``configuration`` (file, or options of the start), ``run time``
            (changed while the broker ran, and kept), or ``unknown`` of Apache's brokers.
        is_live: whether it can be changed while the broker runs; null if that is unknown.
    """

    key: str
    value: str | None
    default: str | None
    configured: str | None
    origin: Origin
    is_live: bool | None


class SettingsView(ResponseBody):
    """The settings of a broker.

    Attributes:
        version: of the settings; give it with a change that was made up with it.
        settings: values by name.
        details: of those that are wanted.
    """

    broker: str
    address: str
    version: str
    settings: dict[str, str]
    details: list[Setting]


class SettingsChange(RequestBody):
    """Settings to change while a broker runs: all or none.

    Attributes:
        changes: values by name.
        preview: only tell what that would do.
        version: of the settings with which the change was made up: 409 if these were changed since.
        address: of the member; null for the master, or the leader of a broker set.
    """

    changes: Annotated[dict[str, ValueText], Meta(min_length=1, max_length=CHANGES_MAX)]
    preview: bool = False
    version: str | None = None
    address: str | None = None


class ChangedSetting(ResponseBody):
    """What a change does to a setting.

    Attributes:
        before, after: values; null if it is unset.
        default: what it is if nobody sets it; null if nobody tells.
        origin: of the value before.
    """

    key: str
    before: str | None
    after: str | None
    default: str | None
    origin: Origin


class SettingsChanged(ResponseBody):
    """What a change of settings has done, or would do.

    Attributes:
        is_done: False of a preview.
        is_checked: whether the broker has checked the values; Apache's brokers take any.
        version: of the settings now.
    """

    broker: str
    address: str
    is_done: bool
    is_checked: bool
    version: str
    changes: list[ChangedSetting]


class NameServer(ResponseBody):
    """A name server.

    Attributes:
        problem: why it does not answer; null if it does.
        release: its release of PocketMQ; null if it tells none, as Apache's.
        brokers: the brokers that it knows, as ``name:id``.
        missing: those that only other name servers know.
        settings: values by name; null if the caller may not see them.
    """

    address: str
    problem: str | None = None
    release: str | None = None
    brokers: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    settings: dict[str, str] | None = None


class NameServers(ResponseBody):
    """All name servers that this console asks."""

    name_servers: list[NameServer]
