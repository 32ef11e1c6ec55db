"""A real broker and a real name server that authenticate and authorize, under one clock."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from support.brokers.broker_parts import (
    GROUP,
    TIMEOUT_MS,
    TOPIC,
    Stage,
    pull_request,
    send_request,
)
from support.brokers.redrive_parts import die, ordered, planned, refused_plan
from support.brokers.secured import (
    ADMIN,
    BARE,
    INNER,
    REFUSED,
    SECRETS,
    SETTINGS,
    Cluster,
    allow,
    user_of,
)
from support.peers.transport import until

from pocketmq.auth.guard import HASHED_AT_ONCE_SIZE_MAX
from pocketmq.auth.needs.broker import BROKER_NEEDS
from pocketmq.auth.needs.namesrv import NAMESRV_NEEDS
from pocketmq.auth.needs.table import described
from pocketmq.auth.penalties import FREE_COUNT
from pocketmq.auth.rights.policies import Acl
from pocketmq.auth.telling import ToldUser, UserTable
from pocketmq.auth.users import UserStatus, UserType
from pocketmq.broker import BrokerConfig
from pocketmq.protocol.bodies.clients import ConsumerData, GroupConfig, Heartbeat, ProducerData
from pocketmq.protocol.bodies.groups import GroupConfigList
from pocketmq.protocol.bodies.locks import LockBatchBody
from pocketmq.protocol.bodies.topics import QueueKey, TopicConfig, TopicConfigList
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.errors import ConfigError
from pocketmq.protocol.messages.hosts import encode_host
from pocketmq.protocol.messages.ids import offset_msg_id
from pocketmq.protocol.requests.brokers import UpdateBrokerConfigRequest
from pocketmq.protocol.requests.clients import HeartbeatRequest, UnregisterClientRequest
from pocketmq.protocol.requests.nameserver import (
    NamesrvConfigRequest,
    RouteRequest,
    TellUsersRequest,
    UnregisterBrokerRequest,
    UpdateNamesrvConfigRequest,
)
from pocketmq.protocol.requests.offsets import (
    MaxOffsetRequest,
    MinOffsetRequest,
    ViewMessageRequest,
)
from pocketmq.protocol.requests.topics import BrokerConfigRequest
from pocketmq.protocol.signing import Credentials
from pocketmq.protocol.wire.command import Command
from pocketmq.runtime.settings import properties_from_text
from pocketmq.testing.clock import VirtualClock
from pocketmq.transport.connection import UNKNOWN_CODE


@pytest_asyncio.fixture
async def cluster(tmp_path: Path, clock: VirtualClock) -> AsyncIterator[Cluster]:
    async with Stage(tmp_path, clock, seed=7) as stage:
        cluster = Cluster(stage, clock)
        await cluster.start()
        yield cluster
        await cluster.close()


FIELDS = {
    "topic": "T", "b": "T", "consumerGroup": "g", "group": "g", "groupName": "g", "srcGroup": "g",
    "destGroup": "g", "compareGroup": "g", "clusterName": "C", "cluster": "C", "offset": "0",
    "commitLogOffset": "0", "msgId": offset_msg_id(encode_host("127.0.0.1", 10911), 0),
    "brokerName": "b", "brokerAddr": "127.0.0.1:1",
}  # fmt: skip
"""Of whatever request."""

BODIES: dict[int, bytes] = {
    RequestCode.HEART_BEAT: Heartbeat(
        client_id="c", consumer_data_set=[ConsumerData(group_name="g")]
    ).encode(),
    RequestCode.LOCK_BATCH_MQ: (
        lock := LockBatchBody(
            client_id="c", consumer_group="g", mq_set=[QueueKey("broker-a", 0, "T")]
        ).encode()
    ),
    RequestCode.UNLOCK_BATCH_MQ: lock,
    RequestCode.CHECK_CLIENT_CONFIG: b'{"group":"g","subscriptionData":{"topic":"T"}}',
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: TopicConfigList(
        topic_config_list=[TopicConfig(topic_name="T")]
    ).encode(),
    RequestCode.TOPIC_FIGURES: b'{"topics":["T"]}',
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: GroupConfig(group_name="g").encode(),
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: GroupConfigList(
        group_config_list=[GroupConfig(group_name="g")]
    ).encode(),
    RequestCode.QUERY_ASSIGNMENT: b'{"topic":"T","consumerGroup":"g"}',
    RequestCode.SET_MESSAGE_REQUEST_MODE: b'{"topic":"T","consumerGroup":"g"}',
    RequestCode.BATCH_ACK_MESSAGE: b'{"acks":[{"c":"g","t":"T"}]}',
}


class TestEveryCode:
    async def test_every_code_of_both_servers_stands_in_the_tables(self, cluster: Cluster) -> None:
        for handlers, needs in (
            (cluster.broker.handlers, BROKER_NEEDS),
            (cluster.server.handlers, NAMESRV_NEEDS),
        ):
            assert set(handlers) - {UNKNOWN_CODE} == set(needs), "closed by default"
            assert all(described(parts) for parts in needs.values())

    async def test_a_user_without_policies_gets_nothing(self, cluster: Cluster) -> None:
        pool = cluster.pool(BARE)
        passed = []
        for address, needs in (
            (cluster.broker.address, BROKER_NEEDS),
            (cluster.server.address, NAMESRV_NEEDS),
        ):
            connection = await pool.get(address)
            for code in needs:
                command = Command(int(code), extra=dict(FIELDS), body=BODIES.get(code, b""))
                answer = await connection.call(command, TIMEOUT_MS)
                if answer.code != REFUSED:
                    passed.append((int(code), answer.code, answer.remark))
                    continue
                remark = answer.remark or ""
                assert remark.endswith("no matched policies.") or "Super users" in remark, remark
        assert passed == []

    async def test_an_unsigned_request_gets_nothing(self, cluster: Cluster) -> None:
        pool = cluster.pool(None)
        for address, needs in (
            (cluster.broker.address, BROKER_NEEDS),
            (cluster.server.address, NAMESRV_NEEDS),
        ):
            codes = (*needs, 9999, -1)
            for start in range(0, len(codes), FREE_COUNT):  # further ones would have to wait
                connection = await pool.get(address)
                for code in codes[start : start + FREE_COUNT]:
                    command = Command(int(code), extra=dict(FIELDS))
                    answer = await connection.call(command, TIMEOUT_MS)
                    assert (answer.code, answer.remark) == (REFUSED, "username cannot be null.")
                pool.drop(address, "the next ones")

    async def test_what_concerns_nobody_else_is_open_to_known_users(self, cluster: Cluster) -> None:
        client = cluster.client(BARE)
        producer = Heartbeat(client_id="c", producer_data_set=[ProducerData(group_name="p")])
        await client.ask(HeartbeatRequest(), producer.encode())
        await client.ask(UnregisterClientRequest(client_id="c", producer_group="p"))
        answer = await client.pool.call(
            cluster.server.address, RouteRequest(topic="TBW102"), TIMEOUT_MS
        )
        assert answer.code == 0


class TestMessages:
    async def test_rights_hold_for_sends_and_pulls(self, cluster: Cluster) -> None:
        admin, bare = cluster.client(ADMIN), cluster.client(BARE)
        await admin.create_topic()
        refusal = await bare.refusal(send_request(), b"x")
        assert refusal == (
            REFUSED,
            f"User:bare has no permission to access Topic:{TOPIC} from 127.0.0.1, "
            f"no matched policies.",
        )
        allow(cluster.broker, BARE, **{f"Topic_{TOPIC}": "Pub"})
        await bare.send(b"one")
        assert "Topic:" in (await bare.refusal(pull_request())).remark
        allow(cluster.broker, BARE, **{f"Topic_{TOPIC}": "Sub", f"Group_{GROUP}": "Sub"})
        assert (await bare.pull()).bodies == [b"one"]
        assert (await bare.refusal(send_request(), b"x")).code == REFUSED

    async def test_a_large_message_is_stored_whole(self, cluster: Cluster) -> None:
        admin = cluster.client(ADMIN)
        await admin.create_topic()
        large = bytes(range(256)) * (HASHED_AT_ONCE_SIZE_MAX // 256 + 1)
        await admin.send(large)
        await admin.send(b"after")
        assert (await admin.everything())[0].body == large

    async def test_a_refused_one_way_send_stores_nothing(self, cluster: Cluster) -> None:
        admin, bare = cluster.client(ADMIN), cluster.client(BARE)
        await admin.create_topic()
        await bare.pool.oneway(cluster.broker.address, send_request(), b"x")
        await bare.refusal(send_request(), b"x")  # comes after it
        assert await admin.max_offset() == 0

    async def test_held_pulls_are_asked_again_when_rights_are_taken(self, cluster: Cluster) -> None:
        admin, bare = cluster.client(ADMIN), cluster.client(BARE)
        await admin.create_topic()
        allow(cluster.broker, BARE, **{f"Topic_{TOPIC}": "Sub", f"Group_{GROUP}": "Sub"})
        held = await bare.hold()
        cluster.users.put_policies(Acl("bare"), 3)
        assert (await held).code == 19
        assert (await bare.refusal(pull_request())).code == REFUSED

    async def test_the_connections_of_a_disabled_user_are_closed(self, cluster: Cluster) -> None:
        bare = cluster.client(BARE)
        at_broker = await bare.pool.get(cluster.broker.address)
        at_server = await bare.pool.get(cluster.server.address)
        route = RouteRequest(topic="TBW102")
        await bare.refusal(send_request(), b"x")
        await bare.pool.call(cluster.server.address, route, TIMEOUT_MS)
        cluster.users.put_user(user_of(BARE, status=UserStatus.DISABLE, changed_ms=2))
        await until(lambda: at_broker.is_closing and at_server.is_closing)
        assert (await bare.refusal(send_request(), b"x")).remark == "User:bare is disabled."
        answer = await bare.pool.call(cluster.server.address, route, TIMEOUT_MS)
        assert answer.remark == "User:bare is disabled."

    async def test_what_a_message_says_of_its_topic_is_not_believed(self, cluster: Cluster) -> None:
        """RocketMQ believes the topic in the header of 33; the message may be of another."""
        admin, bare = cluster.client(ADMIN), cluster.client(BARE)
        await admin.create_topic()
        sent = await admin.send(b"secret")
        allow(cluster.broker, BARE, Topic_mine="All")
        offset = int(sent.msg_id[-16:], 16)
        refusal = await bare.refusal(ViewMessageRequest(offset=offset, topic="mine"))
        assert f"Topic:{TOPIC}" in refusal.remark
        assert (await admin.call(ViewMessageRequest(offset=offset))).code == 0


class TestSettings:
    async def test_secrets_are_shown_nowhere(
        self, cluster: Cluster, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level("DEBUG")
        admin = cluster.client(ADMIN)
        shown = [
            (await admin.ask(BrokerConfigRequest(detailed=detailed))).body
            for detailed in (None, True)
        ]
        answer = await admin.pool.call(cluster.server.address, NamesrvConfigRequest(), TIMEOUT_MS)
        shown += [answer.body, repr(cluster.broker.config).encode()]
        for credentials in (BARE, None):
            client = cluster.client(credentials)
            await client.refusal(send_request(), b"x")
        logged = [record.getMessage() for record in caplog.records]
        for text in [*map(str, shown), *logged]:
            assert not any(secret in text for secret in SECRETS), text
        settings = properties_from_text(shown[0].decode())
        assert settings["innerClientAuthenticationCredentials"] == "********"
        assert settings["initAuthenticationUser"] == "********"

    @pytest.mark.parametrize(
        "line",
        [
            "authenticationEnabled=false",
            "authorizationWhitelist=310",
            "initAuthenticationUser=x",
            "innerClientAuthenticationCredentials=x",
        ],
    )
    async def test_they_are_changed_in_the_file_only(self, cluster: Cluster, line: str) -> None:
        admin = cluster.client(ADMIN)
        refusal = await admin.refusal(UpdateBrokerConfigRequest(), line.encode())
        assert line.partition("=")[0] in refusal.remark
        answer = await admin.pool.call(
            cluster.server.address, UpdateNamesrvConfigRequest(), TIMEOUT_MS, line.encode()
        )
        assert answer.code != 0
        assert cluster.broker.config.authentication_enabled

    async def test_listed_codes_need_no_signature(self, stage: Stage, clock: VirtualClock) -> None:
        broker = await stage.broker(
            **SETTINGS | {"authentication_whitelist": "30, 31", "authorization_whitelist": "30"}
        )
        client = stage.client(broker)
        broker.topics.put(TopicConfig(topic_name=TOPIC))
        assert (await client.call(MaxOffsetRequest(topic=TOPIC, queue_id=0))).code == 0
        assert (await client.refusal(MinOffsetRequest(topic=TOPIC, queue_id=0))).code == REFUSED

    async def test_a_server_that_nobody_could_use_does_not_start(self, stage: Stage) -> None:
        with pytest.raises(ConfigError, match="initAuthenticationUser"):
            await stage.broker(authentication_enabled=True)


class TestBrokerNames:
    async def test_a_broker_name_belongs_to_whom_registered_it(self, cluster: Cluster) -> None:
        other = Credentials("other", "other-secret-4")
        cluster.users.put_user(user_of(other, UserType.SUPER))
        await until(lambda: cluster.server_knows("other"))
        request = UnregisterBrokerRequest(
            broker_name=cluster.broker.config.broker_name,
            broker_addr=cluster.broker.address,
            cluster_name=cluster.broker.config.broker_cluster_name,
            broker_id=0,
        )
        pool = cluster.pool(other)
        answer = await pool.call(cluster.server.address, request, TIMEOUT_MS)
        assert answer.code == REFUSED
        assert "belongs to User:inner" in (answer.remark or "")
        assert cluster.server.routes.knows(cluster.broker.config.broker_name)

    async def test_an_unsigned_broker_is_not_registered(
        self, cluster: Cluster, tmp_path: Path
    ) -> None:
        with pytest.raises(ConfigError, match="innerClientAuthenticationCredentials"):
            BrokerConfig(authentication_enabled=True, namesrv_addr="127.0.0.1:1")
        await cluster.stage.broker(
            namesrv_addr=cluster.server.address,
            broker_name="stranger",
            store_path_root_dir=str(tmp_path / "other"),
        )
        assert not cluster.server.routes.knows("stranger")

    async def test_an_unsigned_request_does_not_tell_users(self, cluster: Cluster) -> None:
        table = UserTable(2**60, [ToldUser(user_of(BARE, UserType.SUPER), None)])
        request = TellUsersRequest(
            broker_name=cluster.broker.config.broker_name, broker_addr="x", cluster_name="y"
        )
        forged = table.sealed(Credentials("inner", "guessed"))
        answer = await cluster.pool(INNER).call(cluster.server.address, request, TIMEOUT_MS, forged)
        assert "same innerClientAuthenticationCredentials" in (answer.remark or "")
        answer = await cluster.pool(BARE).call(
            cluster.server.address, request, TIMEOUT_MS, table.sealed(INNER)
        )
        assert answer.code == REFUSED


async def test_who_sends_dead_letters_again_may_change_the_group_and_write_to_the_target(
    cluster: Cluster,
) -> None:
    admin, bare = cluster.client(ADMIN), cluster.client(BARE)
    await admin.create_topic()
    await die(admin, b"dead")
    allow(cluster.broker, BARE, **{f"Group_{GROUP}": "Sub"})
    assert (await refused_plan(bare, ordered())).code == REFUSED
    allow(cluster.broker, BARE, **{f"Group_{GROUP}": "Update"})
    assert (await planned(bare, ordered())).count == 1
    for target in (TOPIC, "*"):
        assert (await refused_plan(bare, ordered(to=target))).code == REFUSED
    allow(cluster.broker, BARE, **{f"Group_{GROUP}": "Update", f"Topic_{TOPIC}": "Pub"})
    assert (await planned(bare, ordered(to=TOPIC))).count == 1
    assert (await refused_plan(bare, ordered(to="*"))).code == REFUSED
    assert (await planned(admin, ordered(to="*"))).count == 1
