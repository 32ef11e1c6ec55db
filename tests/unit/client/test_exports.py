"""What applications can import, and that the blocking client offers the same names."""

from __future__ import annotations

import inspect

import pytest

import pocketmq.client
from pocketmq.client import blocking

EXPORTED = {
    "Admin",
    "AllocateByConfiguration",
    "AllocateByConsistentHash",
    "AllocateByMachineRoom",
    "AllocateNearby",
    "BatchContentError",
    "BatchFailedError",
    "BrokerDownError",
    "BrokerRow",
    "ByMachineRoom",
    "ByRandom",
    "CheckForbiddenContext",
    "ClientInstance",
    "ClientTls",
    "ClosedError",
    "CommunicationMode",
    "ConsumeHooks",
    "ConsumeMessageContext",
    "ConsumeResult",
    "ConsumeReturnType",
    "Credentials",
    "FaultTable",
    "FilterSyntaxError",
    "LitePullConsumer",
    "LocalTransactionState",
    "Message",
    "MessageQueue",
    "MessageSelector",
    "MessageType",
    "NoNameServerError",
    "NoPermissionError",
    "NoPermissionRouteError",
    "OffsetFileError",
    "OrderlyResult",
    "PackMessagesContext",
    "Producer",
    "PullConsumer",
    "PullResult",
    "PullStatus",
    "PushConsumer",
    "QueueChoiceError",
    "QueueLag",
    "QueueReset",
    "QueueState",
    "QueueStats",
    "ROCKETMQ_4_TABLE",
    "ROCKETMQ_5_TABLE",
    "ReceivedMessage",
    "RequestTimeoutError",
    "RetryLater",
    "RouteError",
    "SeekError",
    "SendFailedError",
    "SendForbiddenError",
    "SendHooks",
    "SendMessageContext",
    "SendResult",
    "SendStatus",
    "SendTimeoutError",
    "SimpleConsumer",
    "TopicExistsError",
    "SuspendQueue",
    "TransactionListener",
    "TransactionProducer",
    "TransactionSendResult",
    "UnknownTopicError",
    "allocate_averagely",
    "allocate_by_circle",
    "by_hash",
    "by_random",
    "read_credentials",
    "reply_message",
}

NOT_FOR_APPLICATIONS = {"check_transaction", "describe", "group_changed", "instance"}


def test_the_exported_names() -> None:
    assert set(pocketmq.client.__all__) == EXPORTED
    for name in EXPORTED:
        assert hasattr(pocketmq.client, name)


def public(cls: type) -> set[str]:
    return {n for n in dir(cls) if not n.startswith("_")} - NOT_FOR_APPLICATIONS


@pytest.mark.parametrize(
    "name",
    [
        "Admin",
        "LitePullConsumer",
        "Producer",
        "PullConsumer",
        "PushConsumer",
        "SimpleConsumer",
        "TransactionProducer",
    ],
)
def test_the_blocking_client_has_the_same_names_and_parameters(name: str) -> None:
    asynchronous, blocked = getattr(pocketmq.client, name), getattr(blocking, name)
    assert public(blocked) == public(asynchronous)
    for method in public(blocked):
        if callable(getattr(blocked, method)):
            mine = inspect.signature(getattr(blocked, method))
            its = inspect.signature(getattr(asynchronous, method))
            assert mine == its, method
