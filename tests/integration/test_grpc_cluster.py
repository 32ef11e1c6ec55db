"""A cluster for tests serves RocketMQ 5's SDKs: its endpoint, its time, several brokers."""

from __future__ import annotations

from typing import Any

import grpc
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

    def ask(self, request: Message, response_class: Any) -> Any:
        name = type(request).__name__.removesuffix("Request")
        rpc = self.channel.unary_unary(
            PREFIX + name,
            request_serializer=lambda one: one.SerializeToString(),
            response_deserializer=response_class.FromString,
        )
        return rpc(request, metadata=METADATA, timeout=20)

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
