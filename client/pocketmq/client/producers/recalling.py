"""Recalling timer messages before they are delivered."""

from __future__ import annotations

from pocketmq.client.instance.instance import ClientInstance
from pocketmq.client.sending.sending import Sender
from pocketmq.protocol.errors import UsageError
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.messages.recall_handle import parse_recall_handle
from pocketmq.protocol.names.names import DLQ_PREFIX, RETRY_PREFIX, check_topic
from pocketmq.protocol.requests.sending import RecallMessageRequest, RecallMessageResponse


async def recall_message(
    instance: ClientInstance,
    sender: Sender,
    group: str,
    topic: str,
    recall_handle: str,
    timeout_ms: float,
) -> str:
    """Asks the broker that a handle names to recall its message.

    Returns:
        The unique key of the message.

    Raises:
        UsageError: the topic or the handle cannot be used; no broker was asked.
        ResponseError: the broker refused it: code 604 when the time is over.
        RouteError, NoNameServerError, ConnectError, ConnectionClosedError, CallTimeoutError.
    """
    check_topic(topic)
    if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
        raise UsageError(f"messages of {topic} cannot be recalled: brokers give no handles for it")
    handle = parse_recall_handle(recall_handle)
    clock, queue = instance.clock, MessageQueue(topic, handle.broker_name, 0)
    deadline = clock.monotonic() + timeout_ms / 1000
    address = await sender.address(queue, deadline)
    request = RecallMessageRequest(
        producer_group=group,
        topic=topic,
        recall_handle=recall_handle,
        broker_name=handle.broker_name,
    )
    left_ms = max(0.0, (deadline - clock.monotonic()) * 1000)
    answer = await instance.pool.ask_for(address, request, RecallMessageResponse, left_ms)
    return answer.msg_id
