"""The client library: `from pocketmq.client import Producer, PushConsumer, Message`."""

from pocketmq.client.errors import (
    BatchContentError,
    BatchFailedError,
    BrokerDownError,
    ClosedError,
    NoNameServerError,
    NoPermissionRouteError,
    QueueChoiceError,
    RouteError,
    SendFailedError,
    SendTimeoutError,
    UnknownTopicError,
)
from pocketmq.client.instance import ClientInstance
from pocketmq.client.latency import ROCKETMQ_4_TABLE, ROCKETMQ_5_TABLE, FaultTable
from pocketmq.client.producer import Producer
from pocketmq.client.results import (
    SendResult,
    SendStatus,
)
from pocketmq.protocol.message import Message, MessageQueue, ReceivedMessage
