"""The audit of a real broker and a real name server."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest_asyncio
from support.brokers.broker_parts import GROUP, Client, Stage, send_request
from support.brokers.redrive_parts import die, ordered, redriven
from support.brokers.secured import ADMIN, BARE, INNER, SECRETS, SETTINGS, Cluster, user_of
from support.peers.transport import until

from pocketmq.namesrv import NameServer, NamesrvConfig
from pocketmq.protocol.bodies.redrives import LetterEdit
from pocketmq.protocol.bodies.users import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo
from pocketmq.protocol.requests.brokers import UpdateBrokerConfigRequest
from pocketmq.protocol.requests.extensions.redrives import ChangeRedriveRequest
from pocketmq.protocol.requests.nameserver import PutKVConfigRequest
from pocketmq.protocol.requests.topics import DeleteTopicRequest
from pocketmq.protocol.requests.users import CreateAclRequest, CreateUserRequest, DeleteUserRequest
from pocketmq.testing.clock import VirtualClock


@pytest_asyncio.fixture
async def cluster(tmp_path: Path, clock: VirtualClock) -> AsyncIterator[Cluster]:
    async with Stage(tmp_path, clock, seed=7) as stage:
        cluster = Cluster(stage, clock)
        cluster.broker = await stage.broker(**SETTINGS | {"audit_topic": "Audit"})
        cluster.users.put_user(user_of(BARE))
        yield cluster
        for pool in cluster.pools:
            await pool.close()


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


async def test_changes_and_refusals_are_told_in_the_file_and_in_the_topic(
    cluster: Cluster, tmp_path: Path
) -> None:
    admin, bare = cluster.client(ADMIN), cluster.client(BARE)
    await admin.create_topic("t", 4, 4)
    await admin.create_topic("t", 8, 8)
    await admin.ask(DeleteTopicRequest(topic="t"))
    await admin.ask(UpdateBrokerConfigRequest(), b"fileReservedTime=24")
    user = UserInfo(password="hidden-secret", user_type="Super").encode()
    await admin.ask(CreateUserRequest(username="u"), user)
    entry = PolicyEntryInfo(resource="*", actions=["All"], decision="Deny")
    acl = AclInfo(policies=[PolicyInfo(entries=[entry])]).encode()
    await admin.ask(CreateAclRequest(subject="User:u"), acl)
    await admin.ask(DeleteUserRequest(username="u"))
    await bare.refusal(send_request(topic="t"), b"x")
    path = tmp_path / "store" / "audit.log"
    found = lines(path)
    made, grown, gone, setting, new_user, new_acl, no_user, refused = found
    assert {line["user"] for line in found[:-1]} == {"admin"}
    assert all(line["address"].startswith("127.0.0.1:") for line in found)
    assert made["before"] is None
    assert (grown["before"]["readQueueNums"], grown["after"]["readQueueNums"]) == (4, 8)
    assert gone["after"] is None
    assert (setting["before"], setting["after"]) == (
        {"fileReservedTime": 72},
        {"fileReservedTime": 24},
    )
    assert new_user["after"] == {"type": "Super", "status": "enable"}
    assert new_acl["after"]["policies"][0]["entries"][0]["decision"] == "Deny"
    assert (no_user["before"], no_user["after"]) == (new_user["after"], None)
    assert (refused["event"], refused["user"], refused["isProven"]) == ("refused", "bare", True)
    assert "Topic:t" in refused["reason"]
    text = path.read_text()
    assert not any(secret in text for secret in [*SECRETS, "hidden-secret"])
    bodies = [m.body.decode() for m in await admin.everything(topic="Audit")]
    assert [json.loads(body) for body in bodies] == found


async def test_an_audit_needs_no_authentication(stage: Stage, tmp_path: Path) -> None:
    path = tmp_path / "own" / "audit.log"
    client: Client = await stage.start(audit_log_path=str(path))
    await client.create_topic("t")
    assert [line["request"] for line in lines(path)] == ["UPDATE_AND_CREATE_TOPIC"]
    assert not (tmp_path / "store" / "audit.log").exists()


async def test_a_name_server_has_one_too(tmp_path: Path, clock: VirtualClock) -> None:
    path = tmp_path / "audit.log"
    config = NamesrvConfig(listen_port=0, audit_log_path=str(path), **SETTINGS)
    cluster = Cluster(Stage(tmp_path, clock, seed=7), clock)
    async with NameServer(config, clock) as server:
        request = PutKVConfigRequest(namespace="n", key="k", value="v")
        assert (await cluster.pool(INNER).call(server.address, request, 60_000)).code == 0
        assert (await cluster.pool(None).call(server.address, request, 60_000)).code == 16
        await until(lambda: len(lines(path)) == 2)
        for pool in cluster.pools:
            await pool.close()
    done, refused = lines(path)
    assert (done["event"], done["user"], done["fields"]["key"]) == ("changed", "inner", "k")
    assert (refused["event"], refused["reason"]) == ("refused", "username cannot be null.")


async def test_a_redrive_is_told_with_its_reason_and_without_bodies(
    stage: Stage, tmp_path: Path
) -> None:
    path = tmp_path / "audit.log"
    client: Client = await stage.start(audit_log_path=str(path))
    await client.create_topic()
    await die(client, b"dead")
    edit = LetterEdit(body="hidden body")
    await redriven(client, ordered(reason="prices were text", edit=edit))
    await client.refusal(ChangeRedriveRequest(group=GROUP, redrive_id="r1", change="pause"))
    begun, change = (line for line in lines(path) if "REDRIVE" in line["request"])
    assert begun["after"]["reason"] == "prices were text"
    assert begun["after"]["edits"] == ["body"]
    assert (change["fields"]["change"], change["result"]) == ("pause", 29)
    assert "hidden body" not in path.read_text()
