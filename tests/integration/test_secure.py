"""`pocketmq up --secure` as a new user tries it, and the commands about users and policies."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.commands.here import ok, pocketmq
from support.commands.process import pocketmq_process
from support.interop.clusters import Cluster, pocketmq_cluster

from pocketmq.cli.servers.secure import (
    ADMIN,
    LOCAL_HOSTS,
    PROFILE,
    RENEWED_BEFORE_DAYS,
    keep_profile,
    reached_as,
    secure,
)
from pocketmq.client import read_credentials
from pocketmq.client.credentials import use_credentials
from pocketmq.client.tls import use_tls
from pocketmq.runtime.certificates import days_left, hosts_of
from pocketmq.testing.clock import VirtualClock

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder for the profiles, and for the cluster's data."""
    folder = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
        yield folder


@pytest.fixture(scope="module")
def cluster(home: Path) -> Iterator[Cluster]:
    with pocketmq_cluster(home / "data", "--secure", "--brokers", "2") as started:
        yield started


@pytest.fixture(autouse=True)
def nobody(home: Path) -> Iterator[None]:
    """Commands that run in this process leave no credentials to the next test."""
    yield
    use_credentials(None)
    use_tls(None)


def rows(*words: str) -> Any:
    return json.loads(ok(*words, "-o", "json"))


def refused(*words: str, stdin: str | None = None, code: int = 1) -> str:
    done = pocketmq(*words, stdin=stdin)
    assert done.returncode == code, done
    assert "Traceback" not in done.stderr
    return done.stderr


def as_user(
    patch: pytest.MonkeyPatch, name: str, secret: str, cluster: Cluster, home: Path
) -> None:
    """Lets commands sign as a user."""
    patch.setenv("POCKETMQ_TLS_TRUST_CERT", str(home / "data" / "secure" / "ca.pem"))
    patch.setenv("POCKETMQ_ACCESS_KEY", name)
    patch.setenv("POCKETMQ_SECRET_KEY", secret)
    patch.setenv("NAMESRV_ADDR", cluster.namesrv)


def test_the_first_minutes(home: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    ok("topic", "create", "First")
    secret = ok("user", "create", "alice", "--generate").strip()
    ok("acl", "create", "alice", "-r", "Topic:First", "-a", "Pub,Sub", "-r", "Group:a*")
    with monkeypatch.context() as patch:
        as_user(patch, "alice", secret, cluster, home)
        ok("send", "First", "hello")
        options = ("--from-beginning", "--count", "1", "--timeout", "20")
        assert "hello" in ok("consume", "First", "--group", "alices", *options)
        assert "Cluster:DefaultCluster" in refused("topic", "create", "Second")
        assert "pocketmq acl explain" in refused("user", "list")
        assert "Group:others" in refused("consume", "First", "--group", "others", *options)
    monkeypatch.setenv("NAMESRV_ADDR", cluster.namesrv)
    assert "TLS" in refused("send", "First", "hello")
    ca = str(home / "data" / "secure" / "ca.pem")
    stranger = refused("send", "First", "hello", "--tls-ca", ca)
    assert "username cannot be null" in stranger
    assert "POCKETMQ_CREDENTIALS" in stranger


def test_secrets_are_private_and_in_no_command_line(home: Path, cluster: Cluster) -> None:
    folder = home / "data" / "secure"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    files = sorted(path.name for path in folder.iterdir())
    assert files == ["admin.key", "broker-a.yaml", "broker-b.yaml", "ca.key", "ca.pem",
                     "inner.key", "secrets.key", "server.key", "server.pem", "tls.properties",
                     "tools.yml"]  # fmt: skip
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    secrets = [read_credentials(folder / f"{name}.key").secret_key for name in ("admin", "inner")]
    lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert any(b"broker-b.yaml" in line for line in lines), "the brokers are among them"
    assert not any(secret.encode() in line for secret in secrets for line in lines)


def test_users_are_created_changed_shown_and_deleted(cluster: Cluster) -> None:
    ok("user", "create", "bob", "--super", stdin="first-secret\n")
    assert {"user": "bob", "type": "Super", "status": "enable", "brokers": 2} in rows(
        "user", "list"
    )
    ok("user", "update", "bob", "--type", "normal", "--disable")
    shown = rows("user", "show", "bob")
    assert shown["versions"] == [
        {"user": "bob", "type": "Normal", "status": "disable", "brokers": 2}
    ]
    assert shown["policies"] == []
    assert "first-secret" not in json.dumps(shown)
    (address, other) = cluster.brokers.values()
    ok("user", "update", "bob", "--enable", "--broker", address)
    assert [row["status"] for row in rows("user", "list", "--filter", "bo")] == [
        "enable",
        "disable",
    ]
    ok("user", "delete", "bob")
    assert "there is no user bob" in refused("user", "show", "bob")
    assert "there is no user bob" in refused("user", "delete", "bob")
    assert "nothing is to be changed" in refused("user", "update", "bob", code=2)
    assert "needs a password" in refused("user", "create", "bob", stdin="", code=2)
    assert "The user is existed" in refused("user", "create", ADMIN, stdin="x\n")
    does_not_show = refused("user", "copy", ADMIN, "--from", address, "--to", other, code=2)
    assert "authenticationPasswordVisible" in does_not_show


def test_policies_are_created_shown_copied_and_deleted(cluster: Cluster) -> None:
    ok("user", "create", "carol", stdin="c\n")
    (address, other) = cluster.brokers.values()
    ok("acl", "create", "carol", "-r", "Topic:c*", "-a", "Pub", "--ip", "10.0.0.0/8", "--deny",
       "--broker", address)  # fmt: skip
    ok("acl", "update", "carol", "-r", "*", "-a", "Get", "--default", "--broker", address)
    expected = [
        {"user": "carol", "resource": "*", "actions": "Get", "sourceIps": "",
         "decision": "Allow", "type": "Default", "brokers": 1},
        {"user": "carol", "resource": "Topic:c*", "actions": "Pub", "sourceIps": "10.0.0.0/8",
         "decision": "Deny", "type": "Custom", "brokers": 1},
    ]  # fmt: skip
    assert rows("acl", "show", "carol") == expected
    ok("acl", "copy", "carol", "--from", address, "--to", other)
    both = [{**row, "brokers": 2} for row in expected]
    assert rows("acl", "list", "--user", "carol") == both
    assert rows("acl", "list", "--user", "carol", "-r", "c*") == both[1:]
    ok("acl", "delete", "carol", "-r", "*", "--default")
    assert rows("acl", "show", "carol") == both[1:]
    ok("acl", "delete", "carol")
    assert rows("acl", "show", "carol") == []
    assert "The resource is null" in refused("acl", "create", "carol", "-r", "Queue:x", "-a", "Pub")


def test_a_decision_is_explained(cluster: Cluster) -> None:
    ok("user", "create", "dave", stdin="d\n")
    ok("acl", "create", "dave", "-r", "Topic:d*", "-a", "Pub", "-a", "Sub")
    ok("acl", "create", "dave", "-r", "Topic:dx", "-a", "Pub", "--deny")
    broker = ("--broker", next(iter(cluster.brokers.values())))
    (row,) = rows("acl", "explain", "dave", "pub", "Topic:dy", *broker)
    assert (row["allowed"], row["entry"]) == ("yes", "Allow Pub,Sub on Topic:d*")
    for words, reason in (
        (("Pub", "Topic:dx"), "Deny Pub on Topic:dx"),
        (("Get", "Topic:dx"), "no entry fits Topic:dx, Get and 127.0.0.1"),
    ):
        done = pocketmq("acl", "explain", "dave", *words, *broker)
        assert done.returncode == 1
        assert reason in done.stdout
    assert "Super users may do everything" in ok("acl", "explain", ADMIN, "Pub", "Topic:x")
    ok("user", "update", "dave", "--disable")
    assert "the user is disabled" in pocketmq("acl", "explain", "dave", "Pub", "Topic:dy").stdout
    assert "is no action" in refused("acl", "explain", "dave", "All", "Topic:dy", code=2)
    assert "is no resource" in refused("acl", "explain", "dave", "Pub", "dy", code=2)
    assert "without an asterisk" in refused("acl", "explain", "dave", "Pub", "Topic:*", code=2)


PLAIN_ACL = """
globalWhiteRemoteAddresses: [10.10.103.*]
accounts:
- accessKey: old-admin
  secretKey: "12345678"
  whiteRemoteAddress: 192.168.0.*
  admin: true
- accessKey: old-user
  secretKey: "87654321"
  admin: false
  defaultTopicPerm: DENY
  defaultGroupPerm: SUB
  topicPerms: [topicA=DENY, topicB=PUB|SUB, topicC=SUB]
  groupPerms: [groupB=PUB]
"""


def test_accounts_of_rocketmq_4_are_migrated(
    home: Path, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "plain_acl.yml"
    file.write_text(PLAIN_ACL)
    dry = pocketmq("acl", "migrate", str(file), "--dry-run")
    assert "2 users would be created: old-admin, old-user" in dry.stderr
    assert rows("user", "list", "--filter", "old") == []
    done = pocketmq("acl", "migrate", str(file), "-o", "json")
    assert "Super users among them: old-admin" in done.stderr
    assert "left out: plain_acl.yml: globalWhiteRemoteAddresses (10.10.103.*)" in done.stderr
    assert "12345678" not in done.stdout + done.stderr
    assert "old-user exists already" in pocketmq("acl", "migrate", str(file)).stderr
    with monkeypatch.context() as patch:
        as_user(patch, "old-user", "87654321", cluster, home)
        assert "the decision is deny" in refused("send", "topicA", "x")
    ok("topic", "create", "topicB")
    with monkeypatch.context() as patch:
        as_user(patch, "old-user", "87654321", cluster, home)
        ok("send", "topicB", "x")


def test_a_second_start_finds_what_is_there(tmp_path: Path) -> None:
    first = secure(tmp_path / "secure", LOCAL_HOSTS)
    assert secure(tmp_path / "secure", LOCAL_HOSTS) == first
    assert first.admin.secret_key != first.inner.secret_key
    assert first.admin.secret_key not in repr(first)


def test_a_certificate_is_renewed_in_time_and_for_further_names(tmp_path: Path) -> None:
    clock = VirtualClock()
    files = secure(tmp_path / "secure", LOCAL_HOSTS, clock).files
    ca, first = files.ca.read_bytes(), files.certificate.read_bytes()
    secure(files.directory, LOCAL_HOSTS[:1], clock)
    assert files.certificate.read_bytes() == first
    secure(files.directory, reached_as("10.1.2.3", ["mq.example"]), clock)
    second = files.certificate.read_bytes()
    assert {"10.1.2.3", "mq.example", "localhost"} <= set(hosts_of(second))
    later = VirtualClock(
        clock.now_ms() + int((days_left(second, clock) - RENEWED_BEFORE_DAYS + 1) * 86_400_000)
    )
    secure(files.directory, LOCAL_HOSTS, later)
    assert files.certificate.read_bytes() != second
    assert files.ca.read_bytes() == ca


def test_a_profile_in_use_stays_in_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    ok("profile", "add", "mine", "-n", "127.0.0.1:1", "--use")
    security = secure(tmp_path / "secure", LOCAL_HOSTS)
    assert keep_profile(security, "127.0.0.1:2") == f" --profile {PROFILE}"
    assert keep_profile(security, "127.0.0.1:3") == f" --profile {PROFILE}"
    assert [row["namesrv"] for row in rows("profile", "list")] == ["127.0.0.1:1", "127.0.0.1:3"]


def test_secure_and_control_exclude_each_other() -> None:
    assert "asks nobody who he is" in refused("up", "--secure", "--control", "0", code=2)


def test_what_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = pocketmq_process("up", "--secure", "--data", str(tmp_path / "file"))
    assert done.returncode == 2
    assert "--secure: " in done.stderr
    assert "it must be writable" in done.stderr
