"""The content of a seed file, under the keys of its YAML."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta, field

from pocketmq.protocol.bodies.clients import GroupConfig
from pocketmq.protocol.bodies.topics import TopicConfig
from pocketmq.protocol.flags import PERM_READ, PERM_WRITE
from pocketmq.protocol.messages.message_json import MessageDocument

QUEUES_DEFAULT = 4
"""Read and write queues, on each broker, of a topic that does not say."""

TYPE_ATTRIBUTE = "message.type"

Queues = Annotated[int, Meta(ge=1, le=65536)]
Count = Annotated[int, Meta(ge=0, le=1_000_000)]
Offset = Annotated[int, Meta(ge=0)]
Permission = Literal["r", "w", "rw"]
MessageType = Literal["NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED"]

PERMISSIONS: dict[str, int] = {"r": PERM_READ, "w": PERM_WRITE, "rw": PERM_READ | PERM_WRITE}

StructT = TypeVar("StructT", bound=msgspec.Struct)


class TopicSettings(msgspec.Struct, kw_only=True, rename="camel", forbid_unknown_fields=True,
                    omit_defaults=True):  # fmt: skip
    """The settings of a topic on each broker.

    Attributes:
        queues: read and write queues.
        read_queues, write_queues: where the two differ.
        perm: ``r``, ``w`` or ``rw``.
        order: an order topic.
        type: of its messages; an attribute that RocketMQ 5 has a name for.
        attributes: others.
    """

    queues: Queues | None = None
    read_queues: Queues | None = None
    write_queues: Queues | None = None
    perm: Permission | None = None
    order: bool | None = None
    type: MessageType | None = None
    attributes: dict[str, str] | None = None


class TopicSeed(TopicSettings, kw_only=True, rename="camel", forbid_unknown_fields=True,
                omit_defaults=True):  # fmt: skip
    """A topic with its settings and messages.

    Attributes:
        brokers: only on these, each with what differs there.
        messages: to load; a text is a body.
        file: with further messages, as JSON lines or a recording, beside the seed file.
    """

    brokers: dict[str, TopicSettings | None] | None = None
    messages: list[MessageDocument | str] = field(default_factory=list)
    file: str | None = None


class GroupSettings(msgspec.Struct, kw_only=True, rename="camel", forbid_unknown_fields=True,
                    omit_defaults=True):  # fmt: skip
    """The settings of a group on each broker.

    Attributes:
        consume: whether its pulls are answered.
        broadcast: whether members may broadcast.
        orderly: a note that it consumes in order.
        notify: notify members when one comes or goes.
        retry_queues: queues of its retry topic; 0 for no retries.
        retry_times: retries before a message goes to the dead letters.
        attributes: others.
    """

    consume: bool | None = None
    broadcast: bool | None = None
    orderly: bool | None = None
    notify: bool | None = None
    retry_queues: Count | None = None
    retry_times: Annotated[int, Meta(ge=-1, le=1_000_000)] | None = None
    attributes: dict[str, str] | None = None


QueueOffsets = dict[str, dict[int, Offset]]
"""By broker and queue."""


class GroupSeed(GroupSettings, kw_only=True, rename="camel", forbid_unknown_fields=True,
                omit_defaults=True):  # fmt: skip
    """A group with its settings and offsets.

    Attributes:
        brokers: only on these, each with what differs there.
        offsets: where it stands in topics, if it stands nowhere yet.
    """

    brokers: dict[str, GroupSettings | None] | None = None
    offsets: dict[str, Literal["earliest", "latest"] | QueueOffsets] = field(default_factory=dict)


class SeedDocument(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A whole seed file.

    Attributes:
        topics: by name: a number of queues, or settings.
        groups: by name: settings; or only names.
    """

    topics: dict[str, Queues | TopicSeed | None] = field(default_factory=dict)
    groups: dict[str, GroupSeed | None] | list[str] = field(default_factory=dict)


def seed_schema() -> dict[str, Any]:
    """Returns the JSON schema of seed files."""
    return msgspec.json.schema(SeedDocument)


def topic_config(name: str, settings: TopicSettings) -> TopicConfig:
    """Converts a seed's topic settings to a broker's."""
    queues = settings.queues or QUEUES_DEFAULT
    attributes = dict(settings.attributes or {})
    if settings.type is not None:
        attributes[TYPE_ATTRIBUTE] = settings.type
    return TopicConfig(
        topic_name=name,
        read_queue_nums=settings.read_queues or queues,
        write_queue_nums=settings.write_queues or queues,
        perm=PERMISSIONS[settings.perm or "rw"],
        order=bool(settings.order),
        attributes=attributes,
    )


def topic_settings(config: TopicConfig) -> TopicSettings:
    """Converts a broker's topic settings to a seed's, without those at their defaults."""
    read, write = config.read_queue_nums, config.write_queue_nums
    attributes = dict(config.attributes)
    kind = attributes.get(TYPE_ATTRIBUTE)
    if kind in MessageType.__args__:  # type: ignore[attr-defined]
        del attributes[TYPE_ATTRIBUTE]
    else:
        kind = None
    perm = {bits: text for text, bits in PERMISSIONS.items()}.get(config.perm & 6)
    values = {
        "queues": read if read == write else None,
        "readQueues": read if read != write else None,
        "writeQueues": write if read != write else None,
        "perm": perm if perm != "rw" else None,
        "order": True if config.order else None,
        "type": kind,
        "attributes": attributes or None,
    }
    return msgspec.convert(values, TopicSettings)


_GROUP_FIELDS = {
    "consume": "consume_enable",
    "broadcast": "consume_broadcast_enable",
    "orderly": "consume_message_orderly",
    "notify": "notify_consumer_ids_changed_enable",
    "retry_queues": "retry_queue_nums",
    "retry_times": "retry_max_times",
    "attributes": "attributes",
}


def group_config(name: str, settings: GroupSettings) -> GroupConfig:
    """Converts a seed's group settings to a broker's."""
    config = GroupConfig(group_name=name)
    for own, other in _GROUP_FIELDS.items():
        if (value := getattr(settings, own)) is not None:
            setattr(config, other, value)
    return config


def group_settings(config: GroupConfig) -> GroupSettings:
    """Converts a broker's group settings to a seed's, without those at their defaults."""
    usual = GroupConfig(group_name=config.group_name)
    changed = {
        own: getattr(config, other)
        for own, other in _GROUP_FIELDS.items()
        if getattr(config, other) != getattr(usual, other)
    }
    return GroupSettings(**changed)


def merged(base: StructT, change: StructT | None, cls: type[StructT]) -> StructT:
    """Merges settings with those that differ on one broker."""
    values = {name: getattr(base, name) for name in cls.__struct_fields__}
    if change is not None:
        given = {name: getattr(change, name) for name in cls.__struct_fields__}
        values |= {name: value for name, value in given.items() if value is not None}
    return cls(**values)
