"""Accounts of RocketMQ 4, ACL 1.0, as users and policies (`auth/migration/AuthMigrator`).

Where RocketMQ's migration allows everything for a permission that nobody knows, this one denies it,
as ACL 1.0 does itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from pocketmq.auth.rights.policies import Acl, Action, Decision, PolicyEntry, PolicyType
from pocketmq.auth.users import User, UserType
from pocketmq.protocol.errors import ConfigError
from pocketmq.protocol.signing import MASK
from pocketmq.runtime.yaml_document import YamlDocument

TOOLS_FILE = "tools.yml"
"""Lies beside the files of accounts and holds the credentials of mqadmin."""

_BOTH = frozenset({Action.PUB, Action.SUB})
_ACTIONS = {
    "PUB": frozenset({Action.PUB}),
    "SUB": frozenset({Action.SUB}),
    "PUB|SUB": _BOTH,
    "SUB|PUB": _BOTH,
}


class _Account(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    access_key: str
    secret_key: str
    white_remote_address: str | None = None
    admin: bool = False
    default_topic_perm: str | None = None
    default_group_perm: str | None = None
    topic_perms: list[str] | None = None
    group_perms: list[str] | None = None

    def __repr__(self) -> str:
        return f"_Account(access_key={self.access_key!r}, secret_key={MASK!r})"


class _File(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    global_white_remote_addresses: list[str] | None = None
    accounts: list[_Account] | None = None
    data_version: Any = None


class Migrated(NamedTuple):
    """What files of accounts become.

    Attributes:
        users: with their policies, in the order of the files.
        left_out: what has no counterpart, in words.
    """

    users: list[tuple[User, Acl]]
    left_out: list[str]


def read_plain_acl(path: Path) -> Migrated:
    """Reads a file such as ``plain_acl.yml``, or all such files of a folder.

    Args:
        path: of the file or folder.

    Raises:
        ConfigError: there is none, or a file cannot be understood; the text names file and line.
    """
    files = [path]
    if path.is_dir():
        files = sorted(f for f in path.rglob("*.y*ml") if f.name != TOOLS_FILE)
        if not files:
            raise ConfigError(f"there is no .yml or .yaml file of accounts below {path}")
    users: dict[str, tuple[User, Acl]] = {}
    left_out: list[str] = []
    for file in files:
        document = YamlDocument(file).convert(_File, strict=False)
        left_out += _addresses(f"{file.name}: globalWhiteRemoteAddresses",
                               document.global_white_remote_addresses or ())  # fmt: skip
        for account in document.accounts or ():
            name = account.access_key
            if name in users:
                left_out.append(f"{file.name}: the second account of {name}")
                continue
            left_out += _addresses(f"{file.name}: whiteRemoteAddress of {name}",
                                   [account.white_remote_address or ""])  # fmt: skip
            kind = UserType.SUPER if account.admin else UserType.NORMAL
            user = User(name, account.secret_key, kind)
            users[name] = (user, Acl(name, tuple(_entries(account))))
    return Migrated(list(users.values()), left_out)


def _addresses(what: str, addresses: Iterable[str]) -> list[str]:
    listed = ", ".join(address for address in addresses if address)
    if not listed:
        return []
    return [f"{what} ({listed}): nobody passes without a signature any more"]


def _entries(account: _Account) -> Iterator[PolicyEntry]:
    for kind, perms, default in (
        ("Topic", account.topic_perms, account.default_topic_perm),
        ("Group", account.group_perms, account.default_group_perm),
    ):
        for name, perm in _pairs(perms or ()).items():
            yield _entry(f"{kind}:{name}", perm, PolicyType.CUSTOM)
        if default:
            yield _entry(f"{kind}:*", default, PolicyType.DEFAULT)


def _pairs(perms: Iterable[str]) -> Mapping[str, str]:
    pairs = (text.partition("=") for text in perms)
    return {name.strip(): perm for name, _, perm in pairs if name.strip()}


def _entry(resource: str, perm: str, policy_type: PolicyType) -> PolicyEntry:
    actions = _ACTIONS.get(perm.replace(" ", "").upper())
    if actions is None:
        return PolicyEntry(resource, frozenset({Action.ALL}), Decision.DENY, (), policy_type)
    return PolicyEntry(resource, actions, Decision.ALLOW, (), policy_type)
