"""The client library: `from pocketmq.client import Producer, PushConsumer, Message`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pocketmq.client.admin import Admin
    from pocketmq.client.admin.results import (
        BrokerRow,
        QueueLag,
        QueueReset,
        QueueState,
        QueueStats,
    )
    from pocketmq.client.consumers.lite_pull_consumer import LitePullConsumer
    from pocketmq.client.consumers.pull_consumer import PullConsumer
    from pocketmq.client.consumers.push_consumer import PushConsumer
    from pocketmq.client.consumers.simple_consumer import SimpleConsumer
    from pocketmq.client.credentials import read_credentials
    from pocketmq.client.errors import (
        BatchContentError,
        BatchFailedError,
        BrokerDownError,
        ClosedError,
        NoNameServerError,
        NoPermissionRouteError,
        OffsetFileError,
        QueueChoiceError,
        RequestTimeoutError,
        RouteError,
        SeekError,
        SendFailedError,
        SendForbiddenError,
        SendTimeoutError,
        TopicExistsError,
        UnknownTopicError,
    )
    from pocketmq.client.fault_strategy import ROCKETMQ_4_TABLE, ROCKETMQ_5_TABLE, FaultTable
    from pocketmq.client.hooks import (
        CheckForbiddenContext,
        CommunicationMode,
        ConsumeHooks,
        ConsumeMessageContext,
        PackMessagesContext,
        SendHooks,
        SendMessageContext,
    )
    from pocketmq.client.instance.instance import ClientInstance
    from pocketmq.client.instance.requests import reply_message
    from pocketmq.client.message_selector import MessageSelector
    from pocketmq.client.producers.producer import Producer
    from pocketmq.client.producers.selectors import ByMachineRoom, ByRandom, by_hash, by_random
    from pocketmq.client.producers.transaction_producer import TransactionProducer
    from pocketmq.client.producers.transactions import (
        LocalTransactionState,
        TransactionListener,
        TransactionSendResult,
    )
    from pocketmq.client.rebalance.allocate_strategies import (
        AllocateByConfiguration,
        AllocateByConsistentHash,
        AllocateByMachineRoom,
        AllocateNearby,
        allocate_averagely,
        allocate_by_circle,
    )
    from pocketmq.client.results import (
        ConsumeResult,
        OrderlyResult,
        PullResult,
        PullStatus,
        RetryLater,
        SendResult,
        SendStatus,
        SuspendQueue,
    )
    from pocketmq.protocol.errors import NoPermissionError
    from pocketmq.protocol.filters import FilterSyntaxError
    from pocketmq.protocol.messages.message import Message, MessageQueue, ReceivedMessage
    from pocketmq.protocol.messages.trace import ConsumeReturnType, MessageType
    from pocketmq.protocol.signing import Credentials
    from pocketmq.transport.tls.settings import ClientTls


import_module("pocketmq.runtime")  # keeps Python from printing warnings nobody asked for

__all__ = [  # noqa: RUF022 (grouped by use)
    # what applications use
    "Admin",
    "ClientInstance",
    "ClientTls",
    "Credentials",
    "LitePullConsumer",
    "Producer",
    "PullConsumer",
    "PushConsumer",
    "SimpleConsumer",
    "TransactionProducer",
    "read_credentials",
    # messages and results
    "BrokerRow",
    "ConsumeResult",
    "LocalTransactionState",
    "Message",
    "MessageQueue",
    "MessageSelector",
    "OrderlyResult",
    "PullResult",
    "PullStatus",
    "QueueLag",
    "QueueReset",
    "QueueState",
    "QueueStats",
    "ReceivedMessage",
    "RetryLater",
    "SendResult",
    "SendStatus",
    "SuspendQueue",
    "TransactionListener",
    "TransactionSendResult",
    "reply_message",
    # choosing queues and brokers
    "ROCKETMQ_4_TABLE",
    "ROCKETMQ_5_TABLE",
    "AllocateByConfiguration",
    "AllocateByConsistentHash",
    "AllocateByMachineRoom",
    "AllocateNearby",
    "ByMachineRoom",
    "ByRandom",
    "FaultTable",
    "allocate_averagely",
    "allocate_by_circle",
    "by_hash",
    "by_random",
    # looking on
    "CheckForbiddenContext",
    "CommunicationMode",
    "ConsumeHooks",
    "ConsumeMessageContext",
    "ConsumeReturnType",
    "MessageType",
    "PackMessagesContext",
    "SendHooks",
    "SendMessageContext",
    # errors
    "BatchContentError",
    "BatchFailedError",
    "BrokerDownError",
    "ClosedError",
    "FilterSyntaxError",
    "NoNameServerError",
    "NoPermissionError",
    "NoPermissionRouteError",
    "OffsetFileError",
    "QueueChoiceError",
    "RequestTimeoutError",
    "RouteError",
    "SeekError",
    "SendFailedError",
    "SendForbiddenError",
    "SendTimeoutError",
    "TopicExistsError",
    "UnknownTopicError",
]

_MODULES = {
    "pocketmq.client.admin": ("Admin",),
    "pocketmq.client.admin.results": (
        "BrokerRow",
        "QueueLag",
        "QueueReset",
        "QueueState",
        "QueueStats",
    ),
    "pocketmq.client.consumers.lite_pull_consumer": ("LitePullConsumer",),
    "pocketmq.client.consumers.pull_consumer": ("PullConsumer",),
    "pocketmq.client.consumers.push_consumer": ("PushConsumer",),
    "pocketmq.client.consumers.simple_consumer": ("SimpleConsumer",),
    "pocketmq.client.credentials": ("read_credentials",),
    "pocketmq.client.errors": (
        "BatchContentError",
        "BatchFailedError",
        "BrokerDownError",
        "ClosedError",
        "NoNameServerError",
        "NoPermissionRouteError",
        "OffsetFileError",
        "QueueChoiceError",
        "RequestTimeoutError",
        "RouteError",
        "SeekError",
        "SendFailedError",
        "SendForbiddenError",
        "SendTimeoutError",
        "TopicExistsError",
        "UnknownTopicError",
    ),
    "pocketmq.client.fault_strategy": (
        "ROCKETMQ_4_TABLE",
        "ROCKETMQ_5_TABLE",
        "FaultTable",
    ),
    "pocketmq.client.hooks": (
        "CheckForbiddenContext",
        "CommunicationMode",
        "ConsumeHooks",
        "ConsumeMessageContext",
        "PackMessagesContext",
        "SendHooks",
        "SendMessageContext",
    ),
    "pocketmq.client.instance.instance": ("ClientInstance",),
    "pocketmq.client.instance.requests": ("reply_message",),
    "pocketmq.client.message_selector": ("MessageSelector",),
    "pocketmq.client.producers.producer": ("Producer",),
    "pocketmq.client.producers.selectors": (
        "ByMachineRoom",
        "ByRandom",
        "by_hash",
        "by_random",
    ),
    "pocketmq.client.producers.transaction_producer": ("TransactionProducer",),
    "pocketmq.client.producers.transactions": (
        "LocalTransactionState",
        "TransactionListener",
        "TransactionSendResult",
    ),
    "pocketmq.client.rebalance.allocate_strategies": (
        "AllocateByConfiguration",
        "AllocateByConsistentHash",
        "AllocateByMachineRoom",
        "AllocateNearby",
        "allocate_averagely",
        "allocate_by_circle",
    ),
    "pocketmq.client.results": (
        "ConsumeResult",
        "OrderlyResult",
        "PullResult",
        "PullStatus",
        "RetryLater",
        "SendResult",
        "SendStatus",
        "SuspendQueue",
    ),
    "pocketmq.protocol.errors": ("NoPermissionError",),
    "pocketmq.protocol.filters": ("FilterSyntaxError",),
    "pocketmq.protocol.messages.message": (
        "Message",
        "MessageQueue",
        "ReceivedMessage",
    ),
    "pocketmq.protocol.messages.trace": (
        "ConsumeReturnType",
        "MessageType",
    ),
    "pocketmq.protocol.signing": ("Credentials",),
    "pocketmq.transport.tls.settings": ("ClientTls",),
}
"""The names by the modules that define them: each module is loaded when a name of it is used."""

_PLACES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_PLACES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
