"""Steps of a console's session as lines of Python, which a test repeats."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pocketmq.console.api.bodies.group_changes import GroupSettings
from pocketmq.console.api.bodies.messages import NewMessage
from pocketmq.console.api.bodies.topics import TopicSettings
from pocketmq.protocol.flags import PERM_READ, PERM_WRITE
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.message import Message

NAMED = frozenset({props.KEYS, props.TAGS})
"""Properties that have an argument of their own."""


def call(function: str, *args: object, **kwargs: object) -> str:
    """A call with literal arguments; those that are empty are left out."""
    given = [repr(arg) for arg in args]
    given += [f"{name}={value!r}" for name, value in kwargs.items() if value not in (None, "", 0)]
    return f"{function}({', '.join(given)})"


def message_text(topic: str, new: NewMessage, began_ms: int) -> str:
    """A message to send; a time of delivery is told from the begin of the test on.

    Args:
        topic: where it goes.
        new: the message as it was sent.
        began_ms: the cluster's time at the begin of the recording.
    """
    message = new.message(topic)
    text = call(
        "Message",
        topic,
        _body(message),
        tags=new.tags,
        keys=list(new.keys) or None,
        properties=_further(message.properties) or None,
        sharding_key=new.sharding_key,
        delay_level=new.delay_level,
        delay_ms=new.delay_ms,
        flag=new.flag,
    )
    if new.deliver_at_ms:
        text = f"{text[:-1]}, deliver_at_ms=began_ms + {new.deliver_at_ms - began_ms})"
    return text


def sent_text(message: Message) -> str:
    """A message of a file's line."""
    named = message.properties
    return call(
        "Message",
        message.topic,
        _body(message),
        tags=named.get(props.TAGS),
        keys=named.get(props.KEYS, "").split() or None,
        properties=_further(named) or None,
        flag=message.flag,
    )


def _body(message: Message) -> bytes | str:
    try:
        text = message.body.decode()
    except UnicodeDecodeError:
        return message.body
    return text if text.isprintable() else message.body


def _further(properties: Mapping[str, str]) -> dict[str, str]:
    usual = {props.WAIT: "true"}
    return {
        name: value
        for name, value in properties.items()
        if name not in NAMED and usual.get(name) != value
    }


def topic_text(name: str, settings: Mapping[str, TopicSettings]) -> str:
    """The creation of a topic with the settings that it has on its first broker."""
    own = next(iter(settings.values()))
    perm = PERM_READ * own.is_readable | PERM_WRITE * own.is_writable
    fields: dict[str, Any] = {}
    if own.read_queues != own.write_queues:
        fields["read_queue_nums"] = own.read_queues
    if perm != PERM_READ | PERM_WRITE:
        fields["perm"] = perm
    return call(
        "cluster.create_topic",
        name,
        own.write_queues,
        **fields,
        order=own.order,
        attributes=dict(own.attributes) or None,
    )


def group_text(name: str, settings: Mapping[str, GroupSettings]) -> str:
    """The creation of a group with the settings that it has on its first broker."""
    own = next(iter(settings.values()))
    fields = {
        "consume_enable": own.may_consume,
        "consume_broadcast_enable": own.may_broadcast,
        "consume_message_orderly": own.is_orderly,
        "retry_max_times": own.retry_max_times,
        "retry_queue_nums": own.retry_queues,
    }
    given = ", ".join(f"{name}={value!r}" for name, value in fields.items())
    return f"cluster.create_group({name!r}, {given})"


def reset_text(
    group: str, topic: str, to: str | None, offsets: Iterable[tuple[str, int, int]]
) -> str:
    """A reset of a group's offsets.

    Args:
        group, topic: whose, and where.
        to: to which end of the queues; None to offsets.
        offsets: each as broker, number of the queue, and offset.
    """
    if to is not None:
        return f"admin.reset_offsets(names.wrap({group!r}), names.wrap({topic!r}), to={to!r})"
    places = ", ".join(
        f"MessageQueue(names.wrap({topic!r}), {broker!r}, {queue}): {offset}"
        for broker, queue, offset in offsets
    )
    given = f"names.wrap({group!r}), names.wrap({topic!r})"
    return f"admin.reset_offsets({given}, offsets={{{places}}})"
