"""A proxy that asks for signatures: its users are those of the brokers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
import pytest_asyncio
from support.brokers.broker_parts import GROUP, TOPIC, Stage
from support.brokers.grpc_parts import GrpcClient, make_group, make_topic, message, signed
from support.brokers.secured import ADMIN, BARE, INNER, REFUSED, SETTINGS, Cluster, user_of
from support.peers.transport import until

from pocketmq.auth.rights.policies import Acl, Action, Decision, PolicyEntry
from pocketmq.auth.telling import UserTable
from pocketmq.auth.users import UserStatus
from pocketmq.protocol.errors import ConfigError
from pocketmq.protocol.requests.users import UserTableRequest
from pocketmq.proxy.rpc import messaging_pb2 as pb
from pocketmq.proxy.standalone.config import ProxyConfig
from pocketmq.proxy.standalone.server import Proxy
from pocketmq.proxy.standalone.users import ASKED_EVERY_S
from pocketmq.testing.clock import VirtualClock

TIMEOUT_MS = 3_000
INNER_SETTING = {"accessKey": INNER.access_key, "secretKey": INNER.secret_key}


class Scene:
    """A cluster that asks for signatures, and a proxy before it."""

    def __init__(self, cluster: Cluster, stack: AsyncExitStack) -> None:
        self.cluster, self._stack = cluster, stack
        self.address = ""

    async def start_proxy(self, **settings: Any) -> None:
        config = ProxyConfig(
            namesrv_addr=self.cluster.server.address,
            grpc_server_port=0,
            authentication_enabled=True,
            authorization_enabled=True,
            **{"inner_client_authentication_credentials": INNER_SETTING, **settings},
        )
        proxy = await self._stack.enter_async_context(Proxy(config, self.cluster.clock))
        self.address = proxy.address

    def client(self, metadata: dict[str, str]) -> GrpcClient:
        client_id = metadata.get("authorization", "nobody")[:60]
        client = GrpcClient(self.cluster.broker, client_id, metadata, self.address)
        self._stack.push_async_callback(client.close)
        return client


@pytest_asyncio.fixture
async def scene(stage: Stage, clock: VirtualClock) -> AsyncIterator[Scene]:
    async with AsyncExitStack() as stack:
        cluster = Cluster(stage, clock)
        await cluster.start()
        stack.push_async_callback(cluster.server.close)
        make_topic(cluster.broker)
        make_group(cluster.broker)
        await until(lambda: cluster.server.routes.route(TOPIC) is not None)
        yield Scene(cluster, stack)


async def test_only_users_of_the_cluster_are_served(scene: Scene) -> None:
    await scene.start_proxy()
    for metadata in ({}, signed("wrong", "admin"), signed("x", "nobody")):
        assert (await scene.client(metadata).send(message())).status.code == pb.UNAUTHORIZED
    admin = scene.client(signed(ADMIN.secret_key, "admin"))
    assert (await admin.send(message(b"1"))).status.code == pb.OK
    _, (got,) = await admin.receive()
    assert (await admin.ack(got)).status.code == pb.OK


async def test_brokers_ask_the_policies_of_each_client(scene: Scene, clock: VirtualClock) -> None:
    await scene.start_proxy()
    bare = scene.client(signed(BARE.secret_key, "bare"))
    route = pb.QueryRouteRequest(topic=pb.Resource(name=TOPIC))
    assert (await bare.ask(route, pb.QueryRouteResponse)).status.code == pb.UNAUTHORIZED
    refused = (await bare.send(message())).entries[0].status
    assert (refused.code, "User:bare" in refused.message) == (pb.UNAUTHORIZED, True)
    entry = PolicyEntry(f"Topic:{TOPIC}", frozenset({Action.PUB}), Decision.ALLOW)
    scene.cluster.users.put_policies(Acl("bare", (entry,)), clock.now_ms())
    assert (await bare.send(message())).entries[0].status.code == pb.OK
    await clock.advance(ASKED_EVERY_S)
    assert (await bare.ask(route, pb.QueryRouteResponse)).status.code == pb.OK
    status, got = await bare.receive(group=GROUP)
    assert (status.code, got) == (pb.UNAUTHORIZED, [])


async def test_changes_of_users_arrive(scene: Scene, clock: VirtualClock) -> None:
    await scene.start_proxy()
    users = scene.cluster.users
    old = scene.client(signed(ADMIN.secret_key, "admin"))
    assert (await old.send(message())).status.code == pb.OK
    admin = users.user("admin")
    users.put_user(type(admin)("admin", "another-secret", admin.user_type, changed_ms=2**50))
    users.put_user(user_of(BARE, status=UserStatus.DISABLE))
    await clock.advance(ASKED_EVERY_S)
    assert (await old.send(message())).status.code == pb.UNAUTHORIZED
    new = scene.client(signed("another-secret", "admin"))
    assert (await new.send(message())).status.code == pb.OK
    disabled = await scene.client(signed(BARE.secret_key, "bare")).send(message())
    assert "disabled" in disabled.status.message


async def test_a_proxy_waits_for_the_first_broker(scene: Scene, clock: VirtualClock) -> None:
    await scene.cluster.broker.close()
    await scene.start_proxy()
    admin = scene.client(signed(ADMIN.secret_key, "admin"))
    refused = await admin.send(message())
    assert refused.status.code == pb.PROXY_TIMEOUT
    assert "no broker has told its users yet" in refused.status.message


async def test_other_credentials_than_the_brokers_are_told(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    other = {"accessKey": "admin", "secretKey": ADMIN.secret_key}
    await scene.start_proxy(inner_client_authentication_credentials=other)
    assert "only servers of the cluster may ask for all users" in caplog.text


async def test_only_servers_are_told_the_users_and_only_news(scene: Scene) -> None:
    cluster = scene.cluster
    refused = await cluster.pool(ADMIN).call(cluster.broker.address, UserTableRequest(), TIMEOUT_MS)
    assert (refused.code, refused.body) == (REFUSED, b"")
    told = await cluster.pool(INNER).ask(cluster.broker.address, UserTableRequest(), TIMEOUT_MS)
    assert ADMIN.secret_key.encode() not in told.body
    table = UserTable.opened(told.body, INNER)
    assert {one.user.username for one in table.users} == {"admin", "inner", "bare"}
    again = UserTableRequest(version=table.version)
    assert not (await cluster.pool(INNER).ask(cluster.broker.address, again, TIMEOUT_MS)).body


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"authentication_enabled": True}, "needs innerClientAuthenticationCredentials"),
        (
            {"authentication_enabled": True, "access_key": "a", "secret_key": "b"},
            "exclude each other",
        ),
        ({"authorization_enabled": True}, "authorizationEnabled needs authenticationEnabled"),
        (
            {
                "authentication_enabled": True,
                "inner_client_authentication_credentials": {"accessKey": "a"},
            },
            "must be of the form",
        ),
    ],
)
def test_settings_that_do_not_fit(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        Proxy(ProxyConfig(**settings))


def test_a_proxy_that_asks_may_be_reached_from_elsewhere() -> None:
    inner = SETTINGS["inner_client_authentication_credentials"]
    config = ProxyConfig(
        bind_address="0.0.0.0",
        authentication_enabled=True,
        inner_client_authentication_credentials=inner,
    )
    assert Proxy(config).address == ""
    assert INNER.secret_key not in repr(config)
