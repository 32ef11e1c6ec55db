"""A cluster for tests serves RocketMQ 5's SDKs: its endpoint, its time, several brokers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message
from support.brokers.grpc_parts import message

from pocketmq.proxy.rpc import messaging_pb2 as pb
from pocketmq.proxy.service import PREFIX
from pocketmq.testing import LocalCluster

METADATA = (("x-mq-client-id", "test"), ("x-mq-language", "PYTHON"))


class BlockingClient:
    """A client over gRPC for threads."""

    def __init__(self, endpoint: str) -> None:
        self.channel = grpc.insecure_channel(endpoint)

    def ask(self, request: Message, response_class: Any, timeout_s: float = 20) -> Any:
        name = type(request).__name__.removesuffix("Request")
        rpc = self.channel.unary_unary(
            PREFIX + name,
            request_serializer=lambda one: one.SerializeToString(),
            response_deserializer=response_class.FromString,
        )
        return rpc(request, metadata=METADATA, timeout=timeout_s)

    def receive(self, topic: str, group: str, broker: str = "broker-a") -> list[pb.Message]:
        request = pb.ReceiveMessageRequest(group=pb.Resource(name=group), batch_size=32)
        request.message_queue.topic.name = topic
        request.message_queue.broker.name = broker
        request.invisible_duration.FromSeconds(600)
        request.long_polling_timeout.FromSeconds(5)
        rpc = self.channel.unary_stream(
            PREFIX + "ReceiveMessage",
            request_serializer=lambda one: one.SerializeToString(),
            response_deserializer=pb.ReceiveMessageResponse.FromString,
        )
        frames = rpc(request, metadata=METADATA, timeout=20)
        return [frame.message for frame in frames if frame.HasField("message")]


def test_time_that_jumps_is_the_time_of_invisible_messages() -> None:
    with LocalCluster(topics={"Orders": 1}) as cluster:
        client = BlockingClient(cluster.grpc_endpoint)
        client.ask(
            pb.SendMessageRequest(messages=[message(topic="Orders")]), pb.SendMessageResponse
        )
        (first,) = client.receive("Orders", "shop")
        cluster.clock.advance(minutes=10)
        (again,) = client.receive("Orders", "shop")
        assert again.system_properties.message_id == first.system_properties.message_id
        assert again.system_properties.delivery_attempt == 2
        client.channel.close()


def test_one_broker_serves_all_of_them() -> None:
    with LocalCluster(brokers=2, topics={"Orders": 1}) as cluster:
        client = BlockingClient(cluster.grpc_endpoint)
        route = client.ask(
            pb.QueryRouteRequest(topic=pb.Resource(name="Orders")), pb.QueryRouteResponse
        )
        brokers = [queue.broker.name for queue in route.message_queues]
        assert sorted(brokers) == ["broker-a", "broker-b"]
        for number in range(2):
            one = message(b"%d" % number, topic="Orders")
            client.ask(pb.SendMessageRequest(messages=[one]), pb.SendMessageResponse)
        bodies = [
            got.body for broker in brokers for got in client.receive("Orders", "shop", broker)
        ]
        assert sorted(bodies) == [b"0", b"1"]
        client.channel.close()


def sent(client: BlockingClient, body: bytes = b"x") -> pb.Status:
    request = pb.SendMessageRequest(messages=[message(body, topic="Orders")])
    status: pb.Status = client.ask(request, pb.SendMessageResponse).status
    return status


def test_faults_hit_calls_over_grpc_too() -> None:
    with LocalCluster(topics={"Orders": 1}) as cluster:
        client, faults = BlockingClient(cluster.grpc_endpoint), cluster.faults
        with faults.answer("SYSTEM_BUSY", request="SEND_MESSAGE", topic="Orders", times=1) as busy:
            assert sent(client).code == pb.TOO_MANY_REQUESTS
            assert sent(client, b"1").code == pb.OK
        assert busy.count == 1
        with faults.send_status("FLUSH_DISK_TIMEOUT", topic="Orders"):
            assert sent(client, b"2").code == pb.MASTER_PERSISTENCE_TIMEOUT
        with faults.delay(3_600_000, request="POP_MESSAGE", group="shop") as late:
            receiving = ThreadPoolExecutor(1).submit(client.receive, "Orders", "shop")
            while not late.count:
                pass
        assert [one.body for one in receiving.result(20)] == [b"1", b"2"]
        with faults.drop_reply(request="SEND_MESSAGE"), pytest.raises(grpc.RpcError) as lost:
            client.ask(
                pb.SendMessageRequest(messages=[message(b"3", topic="Orders")]),
                pb.SendMessageResponse,
                timeout_s=0.3,
            )
        assert lost.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert [one.body for one in client.receive("Orders", "shop")] == [b"3"]
        with faults.close_connection(request="SEND_MESSAGE", times=1):
            assert sent(client).code == pb.PROXY_TIMEOUT
            assert sent(client).code == pb.OK
        client.channel.close()
