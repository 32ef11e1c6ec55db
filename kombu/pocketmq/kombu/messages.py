"""Messages of kombu as messages of RocketMQ: one JSON object each, with headers and properties."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from kombu.utils.json import dumps, loads

from pocketmq.kombu.options import Options
from pocketmq.protocol.errors import ContentError
from pocketmq.protocol.messages.message import Message, ReceivedMessage

ETA = "eta"
"""Celery's header: when a task may begin at the earliest, in ISO 8601."""

DELAY = "x-delay"
"""The header of RabbitMQ's delayed exchanges: milliseconds."""

EXPIRATION = "expiration"
"""AMQP's property: milliseconds for which a message may wait."""


def packed(topic: str, payload: Mapping[str, Any], options: Options, now_ms: int) -> Message:
    """Returns what is sent for a message of kombu.

    The task's id becomes a key and its name the tag, by which consoles find messages.

    Args:
        topic: where to.
        payload: kombu's message.
        options: of the transport.
        now_ms: milliseconds since the epoch.
    """
    headers = payload.get("headers") or {}
    task_id, task = headers.get("id"), headers.get("task")
    delay_ms = delay_of(headers, options, now_ms)
    message = Message(
        topic,
        dumps(payload),
        keys=task_id if isinstance(task_id, str) and task_id.split() == [task_id] else (),
        tags=task if isinstance(task, str) and "||" not in task else None,
    )
    if 0 < delay_ms <= options.delay_ms_max:
        message.properties.update(Message(topic, deliver_at_ms=now_ms + delay_ms).properties)
    elif delay_ms > 0 and options.delay_ms_max:  # the worker waits for the rest
        message.properties.update(Message(topic, delay_ms=options.delay_ms_max).properties)
    return message


def delay_of(headers: Mapping[str, Any], options: Options, now_ms: int) -> int:
    """Returns for how many milliseconds a message is to wait in the broker; 0 for at once.

    Args:
        headers: of kombu's message.
        options: whether Celery's ``eta`` counts.
        now_ms: milliseconds since the epoch.
    """
    delay, eta = headers.get(DELAY), headers.get(ETA)
    if isinstance(delay, int):
        return max(delay, 0)
    if not isinstance(eta, str) or not options.native_delay:
        return 0
    try:
        due = datetime.fromisoformat(eta)
    except ValueError:
        return 0  # no time of Celery's
    if due.tzinfo is None:
        due = due.replace(tzinfo=UTC)
    return max(round(due.timestamp() * 1000) - now_ms, 0)


def unpacked(message: ReceivedMessage, delivery_tag: str) -> dict[str, Any]:
    """Returns kombu's message.

    Args:
        message: as it came.
        delivery_tag: of this delivery.

    Raises:
        ContentError: it is none of kombu's.
    """
    try:
        payload: dict[str, Any] = loads(message.body.decode())
    except (ValueError, RecursionError) as e:
        raise ContentError(f"message {message.msg_id} is no message of kombu: {e}") from e
    properties = payload.get("properties") if isinstance(payload, dict) else None
    if not isinstance(properties, dict) or not isinstance(
        properties.setdefault("delivery_info", {}), dict
    ):
        raise ContentError(
            f"message {message.msg_id} is no message of kombu: it has no properties; other "
            f"producers have to send what kombu sends, or to another topic"
        )
    properties["delivery_tag"] = delivery_tag
    properties["delivery_info"]["redelivered"] = message.reconsume_times > 0
    return payload


def is_expired(message: ReceivedMessage, payload: Mapping[str, Any], now_ms: int) -> bool:
    """Whether a message has waited longer than its property ``expiration`` allows."""
    try:
        expiration_ms = int(payload["properties"][EXPIRATION])
    except (KeyError, TypeError, ValueError):
        return False
    return now_ms > message.store_timestamp + expiration_ms
