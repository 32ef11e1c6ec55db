"""A proxy before a cluster: what it shares with others, what it survives, and its settings."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import grpc
import pytest
import pytest_asyncio
from support.brokers.broker_parts import GROUP, TOPIC, Stage
from support.brokers.grpc_parts import GrpcClient, make_topic, message
from support.peers.transport import until

from pocketmq.broker import Broker
from pocketmq.namesrv import NameServer, NamesrvConfig
from pocketmq.protocol.errors import ConfigError
from pocketmq.protocol.messages.hosts import split_address
from pocketmq.proxy.rpc import messaging_pb2 as pb
from pocketmq.proxy.standalone.config import ProxyConfig
from pocketmq.proxy.standalone.server import Proxy
from pocketmq.testing import LocalCluster
from pocketmq.testing.clock import VirtualClock


class Scene:
    """A name server, a broker, and proxies before them."""

    def __init__(self, stage: Stage, stack: AsyncExitStack) -> None:
        self.stage, self._stack = stage, stack
        self.namesrv: NameServer
        self.broker: Broker

    async def start(self) -> None:
        config = NamesrvConfig(listen_port=0, bind_address="127.0.0.1")
        server = NameServer(config, self.stage.clock)
        self.namesrv = await self._stack.enter_async_context(server)
        await self.start_broker()

    async def start_broker(self) -> None:
        """Starts the broker, again at the address that it had."""
        port = split_address(self.broker.address)[1] if hasattr(self, "broker") else 0
        self.broker = await self.stage.broker(listen_port=port, namesrv_addr=self.namesrv.address)
        make_topic(self.broker)

    async def proxy(self, client_id: str = "client-1") -> GrpcClient:
        """A client of a further proxy."""
        config = ProxyConfig(namesrv_addr=self.namesrv.address, grpc_server_port=0)
        proxy = await self._stack.enter_async_context(Proxy(config, self.stage.clock))
        client = GrpcClient(self.broker, client_id, endpoint=proxy.address)
        self._stack.push_async_callback(client.close)
        return client


@pytest_asyncio.fixture
async def scene(stage: Stage) -> AsyncIterator[Scene]:
    async with AsyncExitStack() as stack:
        scene = Scene(stage, stack)
        await scene.start()
        yield scene


async def acknowledged(client: GrpcClient, received: pb.Message) -> pb.AckMessageResponse:
    request = pb.AckMessageRequest(topic=pb.Resource(name=TOPIC), group=pb.Resource(name=GROUP))
    request.entries.add(
        receipt_handle=received.system_properties.receipt_handle,
        message_id=received.system_properties.message_id,
    )
    return await client.ask(request, pb.AckMessageResponse)


async def test_a_handle_is_good_at_every_proxy(scene: Scene) -> None:
    first, second = await scene.proxy(), await scene.proxy("client-2")
    await first.send(message(b"1"))
    _, (got,) = await first.receive()
    answer = await acknowledged(second, got)
    assert answer.entries[0].status.code == pb.OK
    assert scene.broker.parts.popping.queues.count == 0


async def test_a_proxy_outlives_its_broker(scene: Scene, clock: VirtualClock) -> None:
    client = await scene.proxy()
    assert (await client.send(message(b"1"))).status.code == pb.OK
    await scene.broker.close()
    refused = await client.send(message(b"2"))
    assert refused.status.code == pb.PROXY_TIMEOUT
    assert "broker-a" in refused.status.message
    await scene.start_broker()
    assert (await client.send(message(b"3"))).status.code == pb.OK
    _, got = await client.receive()
    assert [one.body for one in got] == [b"1", b"3"]


async def test_a_proxy_goes_on_without_name_servers(scene: Scene, clock: VirtualClock) -> None:
    client = await scene.proxy()
    await client.send(message(b"1"))
    await scene.namesrv.close()
    await clock.advance(20)
    assert (await client.send(message(b"2"))).status.code == pb.OK
    stranger = pb.QueryRouteRequest(topic=pb.Resource(name="Other"))
    answer = await client.ask(stranger, pb.QueryRouteResponse)
    assert answer.status.code == pb.PROXY_TIMEOUT
    assert "no name server answers" in answer.status.message


async def test_a_client_that_ends_is_forgotten_by_the_broker(scene: Scene) -> None:
    client = await scene.proxy()
    call, _ = await client.consumer()
    assert scene.broker.parts.members.consumers.get(GROUP) is not None
    request = pb.NotifyClientTerminationRequest(group=pb.Resource(name=GROUP))
    await client.ask(request, pb.NotifyClientTerminationResponse)
    await until(lambda: scene.broker.parts.members.consumers.get(GROUP) is None)
    call.cancel()


async def test_a_broker_that_no_route_has_named(scene: Scene, clock: VirtualClock) -> None:
    client = await scene.proxy()
    received = pb.Message()
    for name, code in (("broker-a", pb.OK), ("nowhere", pb.INVALID_RECEIPT_HANDLE)):
        received.system_properties.receipt_handle = f"0 {clock.now_ms()} 60000 0 0 {name} 0 0 0"
        answer = await acknowledged(client, received)
        assert answer.entries[0].status.code == code


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"bind_address": "0.0.0.0"}, "the proxy would listen on 0.0.0.0 without authentication"),
        ({"namesrv_addr": " ; "}, "a proxy needs name servers"),
        ({"access_key": "me"}, "accessKey and secretKey go together"),
    ],
)
def test_settings_that_do_not_fit(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        Proxy(ProxyConfig(**settings))


async def test_the_command_serves_a_cluster(tmp_path: Path) -> None:
    with LocalCluster(topics={TOPIC: 1}) as cluster:
        config = tmp_path / "proxy.yaml"
        config.write_text(f"namesrvAddr: {cluster.namesrv}\ngrpcServerPort: 0\n")
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "pocketmq.cli.main", "proxy", "-c", str(config),
            stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert process.stdout is not None
        line = (await process.stdout.readline()).decode()
        found = re.fullmatch(r"up grpc=(\S+)\n", line)
        assert found is not None
        channel = grpc.aio.insecure_channel(found[1])
        rpc = channel.unary_unary(
            "/apache.rocketmq.v2.MessagingService/SendMessage",
            request_serializer=pb.SendMessageRequest.SerializeToString,
            response_deserializer=pb.SendMessageResponse.FromString,
        )
        request = pb.SendMessageRequest(messages=[message(b"1")])
        answer = await rpc(request, metadata=(("x-mq-client-id", "me"),), timeout=30)
        assert answer.status.code == pb.OK
        await channel.close(None)
        process.terminate()
        assert await process.wait() == 0
