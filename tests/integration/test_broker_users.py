"""Users and policies over the wire: 3001 to 3010, as RocketMQ 5.5.0 answers them."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from support.brokers.broker_parts import Client, Stage, send_request
from support.brokers.secured import ADMIN, BARE, REFUSED, SETTINGS, Cluster, allow, user_of
from support.peers.transport import until

from pocketmq.auth.directory import UserDirectory
from pocketmq.auth.stored import SECRETS_KEY_VARIABLE
from pocketmq.auth.users import UserType
from pocketmq.broker.handlers.administration import users
from pocketmq.protocol.bodies.users import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo
from pocketmq.protocol.errors import ConfigError
from pocketmq.protocol.requests.users import (
    AclRequest,
    AclsRequest,
    CreateAclRequest,
    CreateUserRequest,
    DeleteAclRequest,
    DeleteUserRequest,
    UpdateAclRequest,
    UpdateUserRequest,
    UserRequest,
    UsersRequest,
)
from pocketmq.protocol.signing import MASK, Credentials
from pocketmq.testing.clock import VirtualClock

NEW = Credentials("new", "new-secret")
DONE = "not set any response code"


@pytest_asyncio.fixture
async def cluster(tmp_path: Path, clock: VirtualClock) -> AsyncIterator[Cluster]:
    async with Stage(tmp_path, clock, seed=7) as stage:
        cluster = Cluster(stage, clock)
        await cluster.start()
        yield cluster
        await cluster.close()


def entry(resource: str = "Topic:t", *actions: str, **fields: Any) -> PolicyEntryInfo:
    given: dict[str, Any] = {
        "resource": resource,
        "actions": list(actions or ("Pub",)),
        "decision": "Allow",
    }
    return PolicyEntryInfo(**(given | fields))


def policies(*entries: PolicyEntryInfo, policy_type: str | None = None) -> bytes:
    return AclInfo(policies=[PolicyInfo(policy_type=policy_type, entries=list(entries))]).encode()


async def create(client: Client, info: UserInfo) -> None:
    answer = await client.ask(CreateUserRequest(username=info.username), info.encode())
    assert answer.remark == DONE


class TestUsers:
    async def test_a_new_user_can_be_used_at_once_on_both_servers(self, cluster: Cluster) -> None:
        admin, new = cluster.client(ADMIN), cluster.client(NEW)
        await admin.create_topic()
        assert (await new.refusal(send_request(), b"x")).remark == "User:new is not found."
        await create(admin, UserInfo(username="new", password=NEW.secret_key, user_type="super"))
        await new.send(b"x")
        await until(lambda: cluster.server_knows("new"))
        change = UserInfo(user_status="disable").encode()
        connection = await new.pool.get(cluster.broker.address)
        await admin.ask(UpdateUserRequest(username="new"), change)
        await until(lambda: connection.is_closing)
        assert (await new.refusal(send_request(), b"x")).remark == "User:new is disabled."
        shown = UserInfo.decode((await admin.ask(UserRequest(username="new"))).body)
        assert shown == UserInfo(
            username="new", password=MASK, user_type="Super", user_status="disable"
        )
        await admin.ask(DeleteUserRequest(username="new"))
        await admin.ask(DeleteUserRequest(username="new"))
        assert (await admin.ask(UserRequest(username="new"))).body == b""
        await until(lambda: not cluster.server_knows("new"))

    async def test_the_name_in_the_header_counts(self, cluster: Cluster) -> None:
        admin = cluster.client(ADMIN)
        body = UserInfo(username="other", password="p").encode()
        await admin.ask(CreateUserRequest(username="new"), body)
        assert cluster.users.user("other") is None
        await admin.ask(CreateUserRequest(), body)
        assert cluster.users.user("other").user_type is UserType.NORMAL

    async def test_lists_are_filtered_and_masked(self, cluster: Cluster) -> None:
        admin = cluster.client(ADMIN)
        body = (await admin.ask(UsersRequest(filter="ba"))).body
        assert msgspec.json.decode(body) == [
            {
                "password": MASK,
                "userStatus": "enable",
                "userType": "Normal",
                "username": "bare",
            }
        ]
        everything = await admin.ask(UsersRequest())
        assert len(msgspec.json.decode(everything.body)) == 3
        none = await admin.ask(UsersRequest(filter="zz"))
        assert (none.body, none.remark) == (b"", DONE)

    async def test_refusals_have_rocketmqs_words(self, cluster: Cluster) -> None:
        admin = cluster.client(ADMIN)
        secret = UserInfo(password="p").encode()
        refusal = await admin.refusal(CreateUserRequest(username=" "), secret)
        assert refusal == (29, "The username is blank")
        for request, body, remark in (
            (CreateUserRequest(username="u"), b"{}", "password can not be blank"),
            (CreateUserRequest(username="bare"), secret, "The user is existed"),
            (UpdateUserRequest(username="u"), secret, "The user is not exist"),
        ):
            assert await admin.refusal(request, body) == (REFUSED, remark)
        long_name = await admin.refusal(CreateUserRequest(username="u" * 256), secret)
        assert "256 letters, allowed are 255" in long_name.remark
        long_secret = UserInfo(password="p" * 1_025).encode()
        assert (
            "allowed are 1024"
            in (await admin.refusal(CreateUserRequest(username="u"), long_secret)).remark
        )

    async def test_a_mask_is_no_password(self, cluster: Cluster) -> None:
        admin = cluster.client(ADMIN)
        mask = UserInfo(password=MASK).encode()
        for request in (CreateUserRequest(username="u"), UpdateUserRequest(username="bare")):
            remark = (await admin.refusal(request, mask)).remark
            assert "authenticationPasswordVisible" in remark
        assert cluster.users.user("bare").password == BARE.secret_key

    async def test_nobody_locks_himself_out(self, cluster: Cluster) -> None:
        admin = cluster.client(ADMIN)
        for change in (UserInfo(user_status="disable"), UserInfo(user_type="Normal")):
            refusal = await admin.refusal(UpdateUserRequest(username="admin"), change.encode())
            assert "may not lock itself out" in refusal.remark
        refusal = await admin.refusal(DeleteUserRequest(username="admin"))
        assert "may not delete itself" in refusal.remark

    async def test_users_are_bounded(
        self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(users, "USERS_MAX", 3)
        body = UserInfo(password="p").encode()
        refusal = await cluster.client(ADMIN).refusal(CreateUserRequest(username="u"), body)
        assert "which is the limit" in refusal.remark

    async def test_who_may_update_the_cluster_may_not_give_himself_rights(
        self, cluster: Cluster
    ) -> None:
        """In RocketMQ Cluster → Update suffices to give oneself everything."""
        bare = cluster.client(BARE)
        allow(cluster.broker, BARE, Cluster_DefaultCluster="All")
        user, acl = UserInfo(password="p", user_type="Super").encode(), policies(entry("*", "All"))
        for request, body in (
            (CreateUserRequest(username="u"), user),
            (UpdateUserRequest(username="bare"), user),
            (DeleteUserRequest(username="admin"), b""),
            (CreateAclRequest(subject="User:bare"), acl),
            (UpdateAclRequest(subject="User:bare"), acl),
            (DeleteAclRequest(subject="User:bare"), b""),
        ):
            refusal = await bare.refusal(request, body)
            assert refusal == (REFUSED, "only Super users may change users and their policies")
        assert (await bare.ask(UsersRequest())).body

    async def test_passwords_are_shown_to_super_users_where_that_is_wanted(
        self, stage: Stage, clock: VirtualClock
    ) -> None:
        broker = await stage.broker(**SETTINGS | {"authentication_password_visible": True})
        cluster = Cluster(stage, clock)
        cluster.broker = broker
        broker.parts.data.users.put_user(user_of(BARE))
        allow(broker, BARE, Cluster_DefaultCluster="Get")
        for credentials, expected in ((ADMIN, BARE.secret_key), (BARE, MASK)):
            client = cluster.client(credentials)
            answer = await client.ask(UserRequest(username="bare"))
            assert UserInfo.decode(answer.body).password == expected
            await client.close()


class TestPolicies:
    async def test_entries_are_added_replaced_and_deleted(self, cluster: Cluster) -> None:
        admin, bare = cluster.client(ADMIN), cluster.client(BARE)
        await admin.create_topic("t")
        subject = "User:bare"
        assert (await admin.ask(AclRequest(subject=subject))).body == b""
        await admin.ask(
            CreateAclRequest(subject=subject), policies(entry(), entry("group:g*x", "sub"))
        )
        await bare.send(b"x", topic="t")
        await admin.ask(
            UpdateAclRequest(subject=subject),
            policies(entry("topic:t", "Sub", "Pub", decision="deny", source_ips=["127.0.0.0/8"])),
        )
        assert "the decision is deny" in (await bare.refusal(send_request(topic="t"), b"")).remark
        answer = await admin.ask(AclRequest(subject=subject))
        assert msgspec.json.decode(answer.body) == {
            "policies": [
                {
                    "entries": [
                        {
                            "actions": ["Pub", "Sub"],
                            "decision": "Deny",
                            "resource": "Topic:t",
                            "sourceIps": ["127.0.0.0/8"],
                        },
                        {"actions": ["Sub"], "decision": "Allow", "resource": "Group:g*"},
                    ],
                    "policyType": "Custom",
                }
            ],
            "subject": subject,
        }
        await admin.ask(DeleteAclRequest(subject=subject, resource="Topic:t"))
        assert "no matched policies" in (await bare.refusal(send_request(topic="t"), b"")).remark
        await admin.ask(DeleteAclRequest(subject=subject))
        refusal = await admin.refusal(DeleteAclRequest(subject=subject))
        assert refusal == (REFUSED, "The acl is not exist.")

    async def test_default_entries_are_apart(self, cluster: Cluster) -> None:
        admin = cluster.client(ADMIN)
        subject = "User:bare"
        await admin.ask(CreateAclRequest(subject=subject), policies(entry("*", "All")))
        await admin.ask(
            CreateAclRequest(subject=subject), policies(entry("*", "Get"), policy_type="Default")
        )
        await admin.ask(DeleteAclRequest(subject=subject, resource="*", policy_type="Default"))
        acl = AclInfo.decode((await admin.ask(AclRequest(subject=subject))).body)
        assert [(p.policy_type, len(p.entries)) for p in acl.policies] == [("Custom", 1)]

    async def test_lists_are_filtered(self, cluster: Cluster) -> None:
        admin = cluster.client(ADMIN)
        for name, resource in (("bare", "Topic:a"), ("bare", "Group:b"), ("inner", "Topic:ab")):
            await admin.ask(CreateAclRequest(subject=f"User:{name}"), policies(entry(resource)))

        async def listed(**filters: str) -> dict[str, list[str]]:
            body = (await admin.ask(AclsRequest(**filters))).body
            return {
                acl["subject"]: [e["resource"] for p in acl["policies"] for e in p["entries"]]
                for acl in msgspec.json.decode(body or b"[]")
            }

        assert await listed() == {"User:bare": ["Topic:a", "Group:b"], "User:inner": ["Topic:ab"]}
        assert await listed(subject_filter="User:inn") == {"User:inner": ["Topic:ab"]}
        assert await listed(resource_filter="b") == {
            "User:bare": ["Group:b"],
            "User:inner": ["Topic:ab"],
        }
        assert await listed(subject_filter="zz") == {}

    @pytest.mark.parametrize(
        ("wrong", "remark"),
        [
            (entry("Queue:t"), "The resource is null."),
            (entry("t"), "The resource is null."),
            (entry("Any:t"), "The resource is null."),
            (entry("Topic:"), "The resource is null."),
            (entry(actions=["Fly"]), "The actions is empty."),
            (entry(actions=["Pub", "Any"]), "The actions can not be Any."),
            (entry(decision=None), "The decision is null or illegal."),
            (entry(decision="Perhaps"), "The decision is null or illegal."),
            (entry(source_ips=["10.0.0"]), "The source ip is invalid."),
        ],
    )
    async def test_wrong_entries_change_nothing(
        self, cluster: Cluster, wrong: PolicyEntryInfo, remark: str
    ) -> None:
        body = policies(entry("Topic:sound"), wrong)
        refusal = await cluster.client(ADMIN).refusal(CreateAclRequest(subject="User:bare"), body)
        assert refusal == (REFUSED, remark)
        assert cluster.users.acl("bare") is None

    async def test_wrong_subjects_are_refused(self, cluster: Cluster) -> None:
        admin = cluster.client(ADMIN)
        body = policies(entry())
        for request, remark in (
            (CreateAclRequest(subject="User:zz"), "The subject of User:zz is not exist."),
            (CreateAclRequest(subject="bare"), "The subject is null."),
            (DeleteAclRequest(subject="User:zz"), "The subject is not exist."),
            (AclRequest(subject="Group:g"), "The subject is null."),
            (AclRequest(subject="User:zz"), "The subject is not exist."),
        ):
            assert await admin.refusal(request, body) == (REFUSED, remark)
        empty = await admin.refusal(CreateAclRequest(subject="User:bare"), b"{}")
        assert empty == (REFUSED, "The policies is empty.")


class TestRestart:
    """What is stored of users."""

    def settings(self, tmp_path: Path, **more: Any) -> dict[str, Any]:
        return SETTINGS | {"secrets_key_path": str(tmp_path / "key")} | more

    async def put_bare(self, stage: Stage, settings: dict[str, Any]) -> None:
        broker = await stage.broker(**settings)
        broker.parts.data.users.put_user(user_of(BARE))
        allow(broker, BARE, Topic_t="Pub")
        await broker.close()

    async def test_users_and_policies_survive_with_passwords_encrypted(
        self, stage: Stage, tmp_path: Path
    ) -> None:
        settings = self.settings(tmp_path)
        await self.put_bare(stage, settings)
        texts = stored_texts(tmp_path)
        assert not any(BARE.secret_key in text for text in texts)
        assert (tmp_path / "key").stat().st_mode & 0o077 == 0
        directory = (await stage.broker(**settings)).parts.data.users
        assert password(directory, "bare") == BARE.secret_key
        acl = directory.acl("bare")
        assert acl is not None
        assert [e.resource for e in acl.entries] == ["Topic:t"]

    async def test_another_key_is_an_error_that_names_the_remedy(
        self, stage: Stage, tmp_path: Path
    ) -> None:
        await self.put_bare(stage, self.settings(tmp_path))
        other = self.settings(tmp_path, secrets_key_path=str(tmp_path / "other"))
        with pytest.raises(ConfigError, match="another key than that of secretsKeyPath"):
            await stage.broker(**other)
        with pytest.raises(ConfigError, match="set secretsKeyPath or POCKETMQ_SECRETS_KEY"):
            await stage.broker(**SETTINGS)

    async def test_a_key_that_comes_later_encrypts_what_is_there(
        self, stage: Stage, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        await self.put_bare(stage, SETTINGS)
        assert "with secretsKeyPath they are encrypted" in caplog.text
        assert any(BARE.secret_key in text for text in stored_texts(tmp_path))
        assert (tmp_path / "store" / "meta.db").stat().st_mode & 0o077 == 0
        await (await stage.broker(**self.settings(tmp_path))).close()
        assert not any(BARE.secret_key in text for text in stored_texts(tmp_path))

    async def test_the_key_may_come_from_the_environment(
        self, stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv(SECRETS_KEY_VARIABLE, "no key")
        with pytest.raises(ConfigError, match="must be 32 bytes"):
            await stage.broker(**SETTINGS)
        monkeypatch.setenv(SECRETS_KEY_VARIABLE, "A" * 43 + "=")
        await self.put_bare(stage, SETTINGS)
        assert not any(BARE.secret_key in text for text in stored_texts(tmp_path))

    async def test_a_key_that_others_may_read_is_refused(
        self, stage: Stage, tmp_path: Path
    ) -> None:
        (tmp_path / "key").write_text("A" * 43 + "=")
        (tmp_path / "key").chmod(0o644)
        with pytest.raises(ConfigError, match=r"others may read .*chmod 600"):
            await stage.broker(**self.settings(tmp_path))

    async def test_the_first_user_keeps_its_new_password_and_the_servers_take_theirs(
        self, stage: Stage, caplog: pytest.LogCaptureFixture
    ) -> None:
        broker = await stage.broker(**SETTINGS)
        directory = broker.parts.data.users
        directory.put_user(user_of(Credentials("admin", "changed"), UserType.SUPER))
        await broker.close()
        inner = {"accessKey": "inner", "secretKey": "rotated"}
        broker = await stage.broker(**SETTINGS | {"inner_client_authentication_credentials": inner})
        directory = broker.parts.data.users
        assert password(directory, "admin") == "changed"
        assert password(directory, "inner") == "rotated"
        assert "User:admin keeps the password" in caplog.text


def password(directory: UserDirectory, name: str) -> str:
    user = directory.user(name)
    assert user is not None
    return user.password


def stored_texts(tmp_path: Path) -> list[str]:
    with sqlite3.connect(tmp_path / "store" / "meta.db") as database:
        return [value for (value,) in database.execute("SELECT value FROM state")]
