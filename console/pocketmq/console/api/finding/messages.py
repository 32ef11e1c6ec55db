"""Finds one message, and shows messages to whom may see them."""

from __future__ import annotations

import re

import msgspec

from pocketmq.client import MessageQueue
from pocketmq.client.errors import UnknownTopicError
from pocketmq.console.api.callers import Callers, Clients
from pocketmq.console.api.paths import PREFIX
from pocketmq.console.web.problems import not_found
from pocketmq.protocol.errors import NoPermissionError, ResponseError, UsageError
from pocketmq.protocol.messages.ids import parse_offset_msg_id
from pocketmq.protocol.messages.message import ReceivedMessage
from pocketmq.protocol.messages.message_json import MessageDocument, message_document

_PLACE = re.compile(r"(?P<broker>[^:]+):(?P<queue>[0-9]{1,9}):(?P<offset>[0-9]{1,18})")


async def message_named(clients: Clients, topic: str, name: str) -> ReceivedMessage:
    """Finds a message.

    Args:
        clients: of the caller.
        topic: of the message.
        name: the id of its sender's client, its address (offset message id), or its place, as
            ``broker-a:3:42``.

    Raises:
        ProblemError: 404, there is no such topic or message.
    """
    try:
        found = await _found(clients, topic, name)
    except UnknownTopicError as e:
        raise not_found("topic", topic, f"GET {PREFIX}/topics") from e
    if found is None or found.topic != topic:
        raise not_found("message", name, f"GET {PREFIX}/topics/{topic}/messages")
    return found


async def _found(clients: Clients, topic: str, name: str) -> ReceivedMessage | None:
    admin = clients.admin
    if match := _PLACE.fullmatch(name):
        queue = MessageQueue(topic, match["broker"], int(match["queue"]))
        if queue in await clients.reader.queues(topic):
            return await admin.message_at(queue, int(match["offset"]))
        return None
    found = await admin.message_by_unique_key(topic, name)
    if found is not None:
        return found
    try:
        address = parse_offset_msg_id(name).store_host
    except UsageError:
        return None
    route = await admin.topic_route(topic)
    named = {
        each: data.broker_name for data in route.broker_datas for each in data.broker_addrs.values()
    }
    if address not in named:  # a request must not make the console connect to any address
        return None
    try:
        found = await admin.view_message(name)
    except NoPermissionError:
        raise
    except ResponseError:  # brokers have several words for "nothing is there"
        return None
    found.broker_name = named[address]
    return found


def shown(callers: Callers, message: ReceivedMessage) -> MessageDocument:
    """Makes the document of a message; without its body where bodies stay hidden."""
    document = msgspec.convert(message_document(message), MessageDocument)
    document.reconsume_times = message.reconsume_times
    if not callers.shows_bodies:
        document.body, document.body_base64 = None, None
    return document
