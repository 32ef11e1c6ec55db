"""Finds the message that is asked for: in its topic, or where it waits before it gets there."""

from __future__ import annotations

import re
from typing import NamedTuple

from pocketmq.client.errors import UnknownTopicError
from pocketmq.client.explanation.case import Case, Place
from pocketmq.client.explanation.states import Cause
from pocketmq.protocol.errors import ResponseError, UsageError
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.ids import StoredAt, parse_offset_msg_id
from pocketmq.protocol.messages.message import MessageQueue, ReceivedMessage
from pocketmq.protocol.names.names import HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC

WAITING_TOPICS = (SCHEDULE_TOPIC, TIMER_TOPIC, HALF_TOPIC)
"""Where brokers keep messages that are not in their own topics yet."""

_PLACE = re.compile(r"(?:(?P<broker>[^:]+):)?(?P<queue>[0-9]+):(?P<offset>[0-9]+)")


class Found(NamedTuple):
    """What was found of a message.

    Attributes:
        place: the message in its topic; None if it is not there.
        waiting: the record by which it waits to get there; None if there is none.
        asked_at: the queue and the offset that were asked for, if the caller named these.
    """

    place: Place | None = None
    waiting: ReceivedMessage | None = None
    asked_at: tuple[MessageQueue, int] | None = None


async def find(case: Case) -> Found:
    """Finds the message of a case.

    Raises:
        UsageError: it is of another topic, or the broker's name is missing or wrong.
        OperatingError: a broker of the topic does not answer.
    """
    if match := _PLACE.fullmatch(case.asked):
        broker = _broker(case, match["broker"])
        queue, offset = MessageQueue(case.topic, broker, int(match["queue"])), int(match["offset"])
        message = await case.admin.message_at(queue, offset)
        place = None if message is None else Place(message, case.addresses[broker])
        return Found(place, asked_at=(queue, offset))
    found = await _by_key(case, case.asked)
    if found.place is None and found.waiting is None:
        return await _by_offset_msg_id(case)
    return found


def _broker(case: Case, name: str | None) -> str:
    known = ", ".join(sorted(case.addresses))
    if name is None and len(case.addresses) == 1:
        return next(iter(case.addresses))
    if name is None:
        raise UsageError(
            f"{case.topic} has queues on several brokers: write BROKER:{case.asked}, with one of "
            f"{known}"
        )
    if name not in case.addresses:
        raise UsageError(f"{case.topic} has no queues on {name}: it has some on {known}")
    return name


async def _by_key(case: Case, key: str) -> Found:
    messages = await case.admin.query_messages(case.topic, key, index="unique_key")
    if messages:
        first, *others = messages
        if others:
            places = ", ".join(str(_place(case, message)) for message in others)
            case.found(
                Cause.STORED_TWICE,
                f"the message is there {len(messages)} times; this is about the first one, the "
                f"others are at {places}",
                "a producer that got no answer sent it again: consumers have to expect that",
            )
        return Found(_place(case, first))
    for topic in WAITING_TOPICS:
        records = await records_of(case, topic, key)
        if own := [r for r in records if r.properties.get(props.REAL_TOPIC) == case.topic]:
            return Found(waiting=own[-1])
    return Found()


async def records_of(case: Case, topic: str, key: str) -> list[ReceivedMessage]:
    """Returns the records of a message in another topic, in order of storage."""

    async def query() -> list[ReceivedMessage]:
        try:
            return await case.admin.query_messages(topic, key, index="unique_key")
        except UnknownTopicError:
            return []

    return await case.ask(f"what is in {topic}", query()) or []


def _place(case: Case, message: ReceivedMessage) -> Place:
    return Place(message, case.addresses.get(message.broker_name, message.store_host))


async def _by_offset_msg_id(case: Case) -> Found:
    at = stored_at(case)
    if at is None:
        return Found()
    try:
        message = await case.admin.view_message(case.asked)
    except ResponseError:
        return Found()
    if message.topic == case.topic:
        names = {address: name for name, address in case.addresses.items()}
        message.broker_name = names[at.store_host]
        return Found(Place(message, at.store_host))
    if message.topic in WAITING_TOPICS and message.properties.get(props.REAL_TOPIC) == case.topic:
        if message.unique_key is not None:
            return await _by_key(case, message.unique_key)
        return Found(waiting=message)
    raise UsageError(f"message {case.asked} is of topic {message.topic}, not of {case.topic}")


def stored_at(case: Case) -> StoredAt | None:
    """Reads the id that is asked for as an offset message id of one of the topic's brokers."""
    try:
        at = parse_offset_msg_id(case.asked)
    except UsageError:
        return None
    return at if at.store_host in case.addresses.values() else None
