"""Clients of RocketMQ 5's gRPC service, by Google's own library."""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from typing import Any, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import Message
from support.brokers.broker_parts import GROUP, TOPIC

from pocketmq.broker import Broker
from pocketmq.protocol.bodies.clients import GroupConfig
from pocketmq.protocol.bodies.topics import TopicConfig
from pocketmq.proxy.rpc import messaging_pb2 as pb
from pocketmq.proxy.service import PREFIX

ResponseT = TypeVar("ResponseT", bound=Message)

RPC_TIMEOUT_S = 60.0


def make_topic(broker: Broker, name: str = TOPIC, message_type: str = "NORMAL") -> None:
    """A topic with two queues whose messages have a type."""
    attributes = {"message.type": message_type}
    config = TopicConfig(
        topic_name=name, read_queue_nums=2, write_queue_nums=2, perm=6, attributes=attributes
    )
    broker.topics.put(config)


def make_group(broker: Broker, name: str = GROUP, **settings: Any) -> None:
    """A group with settings."""
    broker.groups.put(GroupConfig(group_name=name, **settings))


def message(
    body: bytes = b"x", topic: str = TOPIC, message_id: str = "", **fields: Any
) -> pb.Message:
    """A message to send; the fields are those of its system properties."""
    out = pb.Message(topic=pb.Resource(name=topic), body=body)
    system = out.system_properties
    system.message_id = message_id or f"ID-{body[:40].hex()}"
    for name, value in fields.items():
        if name == "delivery_ms":
            system.delivery_timestamp.FromMilliseconds(value)
        elif name == "keys":
            system.keys.extend(value)
        elif name == "properties":
            out.user_properties.update(value)
        else:
            setattr(system, name, value)
    return out


def signed(secret: str, name: str = "alice") -> dict[str, str]:
    """The metadata of a call that a user has signed."""
    at = "20260101T000000Z"
    signature = hmac.new(secret.encode(), at.encode(), "sha1").hexdigest().upper()
    return {
        "x-mq-date-time": at,
        "authorization": f"MQv2-HMAC-SHA1 Credential={name}/region/service, "
        f"SignedHeaders=x-mq-date-time, Signature={signature}",
    }


class GrpcClient:
    """One client of the endpoint of a broker.

    Args:
        broker: with the endpoint.
        client_id: as it calls itself.
        metadata: beside the client id.
        endpoint: of a proxy before the broker, instead of the broker's own.
    """

    def __init__(
        self,
        broker: Broker,
        client_id: str = "client-1",
        metadata: dict[str, str] | None = None,
        endpoint: str = "",
    ) -> None:
        self.broker = broker
        self.channel = grpc.aio.insecure_channel(endpoint or f"127.0.0.1:{broker.grpc_port}")
        given = {"x-mq-client-id": client_id, "x-mq-language": "JAVA", **(metadata or {})}
        self.metadata = tuple((name, value) for name, value in given.items() if value)

    async def ask(self, request: Message, response_class: type[ResponseT]) -> ResponseT:
        """Calls the unary rpc of a request."""
        name = type(request).__name__.removesuffix("Request")
        rpc = self.channel.unary_unary(
            PREFIX + name,
            request_serializer=_encode,
            response_deserializer=response_class.FromString,
        )
        answer: ResponseT = await rpc(request, metadata=self.metadata, timeout=RPC_TIMEOUT_S)
        return answer

    async def send(self, *messages: pb.Message) -> pb.SendMessageResponse:
        """Sends messages."""
        return await self.ask(pb.SendMessageRequest(messages=messages), pb.SendMessageResponse)

    async def receive(
        self,
        topic: str = TOPIC,
        group: str = GROUP,
        *,
        invisible_ms: int = 10_000,
        poll_s: float = 5,
        batch_size: int = 16,
        expression: str = "*",
        attempt_id: str = "",
        auto_renew: bool = False,
    ) -> tuple[pb.Status, list[pb.Message]]:
        """Receives once; returns the status and the messages."""
        request = pb.ReceiveMessageRequest(
            group=pb.Resource(name=group),
            batch_size=batch_size,
            auto_renew=auto_renew,
            filter_expression=pb.FilterExpression(type=pb.TAG, expression=expression),
        )
        if attempt_id:
            request.attempt_id = attempt_id
        request.message_queue.topic.name = topic
        request.message_queue.broker.name = "broker-a"
        request.invisible_duration.FromMilliseconds(invisible_ms)
        request.long_polling_timeout.FromMilliseconds(round(poll_s * 1000))
        rpc = self.channel.unary_stream(
            PREFIX + "ReceiveMessage",
            request_serializer=_encode,
            response_deserializer=pb.ReceiveMessageResponse.FromString,
        )
        frames = [
            frame async for frame in rpc(request, metadata=self.metadata, timeout=RPC_TIMEOUT_S)
        ]
        assert frames[-1].HasField("delivery_timestamp")
        (status,) = [frame.status for frame in frames if frame.HasField("status")]
        return status, [frame.message for frame in frames if frame.HasField("message")]

    async def ack(
        self, *messages: pb.Message, group: str = GROUP, topic: str = TOPIC
    ) -> pb.AckMessageResponse:
        """Acknowledges messages."""
        entries = [
            pb.AckMessageEntry(
                message_id=one.system_properties.message_id,
                receipt_handle=one.system_properties.receipt_handle,
            )
            for one in messages
        ]
        request = pb.AckMessageRequest(
            group=pb.Resource(name=group), topic=pb.Resource(name=topic), entries=entries
        )
        return await self.ask(request, pb.AckMessageResponse)

    async def renew(
        self, one: pb.Message, duration_ms: int, group: str = GROUP, topic: str = TOPIC
    ) -> pb.ChangeInvisibleDurationResponse:
        """Sets an invisible time anew."""
        request = pb.ChangeInvisibleDurationRequest(
            group=pb.Resource(name=group),
            topic=pb.Resource(name=topic),
            receipt_handle=one.system_properties.receipt_handle,
            message_id=one.system_properties.message_id,
        )
        request.invisible_duration.FromMilliseconds(duration_ms)
        return await self.ask(request, pb.ChangeInvisibleDurationResponse)

    async def telemetry(self, settings: pb.Settings) -> tuple[Any, pb.TelemetryCommand]:
        """Opens a telemetry call with settings; returns the call and the first answer."""
        rpc: Any = self.channel.stream_stream(
            PREFIX + "Telemetry",
            request_serializer=_encode,
            response_deserializer=pb.TelemetryCommand.FromString,
        )
        call = rpc(metadata=self.metadata)
        await call.write(pb.TelemetryCommand(settings=settings))
        return call, await call.read()

    async def consumer(
        self, group: str = GROUP, topics: Sequence[str] = (TOPIC,), **fields: Any
    ) -> tuple[Any, pb.TelemetryCommand]:
        """Says that it is a consumer."""
        settings = pb.Settings(client_type=fields.get("client_type", pb.PUSH_CONSUMER))
        settings.subscription.group.name = group
        for topic in topics:
            expression = pb.FilterExpression(type=pb.TAG, expression="*")
            settings.subscription.subscriptions.add(
                topic=pb.Resource(name=topic), expression=expression
            )
        return await self.telemetry(settings)

    async def producer(self, *topics: str) -> tuple[Any, pb.TelemetryCommand]:
        """Says that it is a producer."""
        settings = pb.Settings(client_type=pb.PRODUCER)
        settings.publishing.topics.extend(pb.Resource(name=topic) for topic in topics)
        return await self.telemetry(settings)

    async def close(self) -> None:
        """Closes its connection."""
        await self.channel.close(None)


def _encode(message: Message) -> bytes:
    return message.SerializeToString()
