"""Accounts of RocketMQ 4 as users and policies."""

from __future__ import annotations

from pathlib import Path

import pytest

from pocketmq.auth.rights.plain_acl import read_plain_acl
from pocketmq.auth.rights.policies import Decision, PolicyEntry
from pocketmq.auth.users import UserType
from pocketmq.broker import BrokerConfig
from pocketmq.protocol.errors import ConfigError

ACCOUNT = """
accounts:
- accessKey: {name}
  secretKey: hidden-secret
  admin: {admin}
  defaultTopicPerm: {default}
  topicPerms: ["T={perm}"]
"""


def write(path: Path, name: str = "u", admin: str = "false", default: str = "SUB",
          perm: str = "PUB") -> Path:  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(ACCOUNT.format(name=name, admin=admin, default=default, perm=perm))
    return path


def shown(entry: PolicyEntry) -> str:
    actions = "|".join(sorted(action.value for action in entry.actions))
    return f"{entry.policy_type.value} {entry.resource} {actions} {entry.decision.value}"


@pytest.mark.parametrize(
    ("perm", "expected"),
    [
        ("PUB", "Pub Allow"),
        ("SUB|PUB", "Pub|Sub Allow"),
        ("pub | sub", "Pub|Sub Allow"),
        ("DENY", "All Deny"),
        ("EVERYTHING", "All Deny"),
        ("", "All Deny"),
    ],
)
def test_permissions(tmp_path: Path, perm: str, expected: str) -> None:
    """RocketMQ's migration allows everything for a permission that nobody knows."""
    ((user, acl),) = read_plain_acl(write(tmp_path / "a.yml", perm=perm)).users
    assert user.user_type is UserType.NORMAL
    assert [shown(e) for e in acl.entries] == [
        f"Custom Topic:T {expected}",
        "Default Topic:* Sub Allow",
    ]


def test_a_folder_is_read_whole_and_the_first_account_of_a_name_counts(tmp_path: Path) -> None:
    write(tmp_path / "1.yml", admin="true")
    write(tmp_path / "acl" / "2.yaml")
    write(tmp_path / "acl" / "3.yml", name="v", default="DENY")
    (tmp_path / "tools.yml").write_text("accessKey: x\nsecretKey: y\n")
    migrated = read_plain_acl(tmp_path)
    assert [(u.username, u.user_type) for u, _ in migrated.users] == [
        ("u", UserType.SUPER),
        ("v", UserType.NORMAL),
    ]
    assert migrated.left_out == ["2.yaml: the second account of u"]
    assert migrated.users[1][1].entries[1].decision is Decision.DENY


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("accounts: [{accessKey: u}]", "secretKey"),
        ("accounts: [{accessKey: u, secretKey: hidden-secret, Admin: true}]", "admin"),
        ("accounts: 5", "accounts"),
        ("- x", "a.yml"),
    ],
)
def test_what_cannot_be_understood_is_named(tmp_path: Path, text: str, named: str) -> None:
    (tmp_path / "a.yml").write_text(text)
    with pytest.raises(ConfigError, match=named) as caught:
        read_plain_acl(tmp_path / "a.yml")
    assert "hidden-secret" not in str(caught.value)


def test_a_place_without_accounts_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no \.yml or \.yaml file"):
        read_plain_acl(tmp_path)
    with pytest.raises(ConfigError, match="needs plainAclPath"):
        BrokerConfig(migrate_auth_from_v1_enabled=True)
