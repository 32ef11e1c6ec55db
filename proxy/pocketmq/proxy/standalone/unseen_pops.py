"""Pops whose client went away before the answer came: their messages go back at once."""

from __future__ import annotations

import asyncio
import logging

from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import PocketMQError
from pocketmq.protocol.popped import Popped, popped_messages, topic_read
from pocketmq.protocol.requests.popping import (
    ChangeInvisibleTimeRequest,
    PopMessageRequest,
    PopMessageResponse,
)
from pocketmq.protocol.wire.command import Command
from pocketmq.transport.connection import Connection

log = logging.getLogger("pocketmq.proxy")

TIMEOUT_MS = 3_000


async def give_back_unseen(
    answering: asyncio.Future[Command],
    request: PopMessageRequest,
    broker_name: str,
    connection: Connection,
) -> None:
    """Waits for a pop's answer that nobody wants any more, and gives its messages back.

    They count as no attempt.

    Args:
        answering: the answer.
        request: that was asked.
        broker_name: which was asked.
        connection: over which.
    """
    try:
        answer = await answering
        if answer.code != ResponseCode.SUCCESS:
            return
        header = answer.read(PopMessageResponse)
        group, topic = request.consumer_group, request.topic
        popped = popped_messages(header, answer.body, group, topic, broker_name)
        asks = (connection.call(_give_back(request, one), TIMEOUT_MS) for one in popped)
        await asyncio.gather(*asks)
    except PocketMQError as e:
        log.info("messages that nobody got come again when they are visible: %s", e)


def _give_back(request: PopMessageRequest, popped: Popped) -> Command:
    handle = popped.handle
    header = ChangeInvisibleTimeRequest(
        consumer_group=request.consumer_group,
        topic=topic_read(handle.origin, request.consumer_group, request.topic),
        queue_id=handle.queue_id,
        extra_info=handle.encode(),
        offset=handle.queue_offset,
        invisible_time=0,
        suspend=True,
    )
    return Command(header.code, header=header)
