"""The choice of a member's offset store: the brokers, or with broadcasting a file."""

from __future__ import annotations

from pathlib import Path

from pocketmq.client.instance.identity import lasting_id
from pocketmq.client.instance.instance import ClientInstance
from pocketmq.client.instance.queue_offsets import QueueOffsets
from pocketmq.client.offsets.local_offset_store import LocalFileOffsetStore, default_path
from pocketmq.client.offsets.offset_store import (
    ConsumeFromWhere,
    OffsetStore,
    RemoteBrokerOffsetStore,
)
from pocketmq.client.settings import MemberSettings
from pocketmq.protocol.bodies.clients import BROADCASTING, CLUSTERING
from pocketmq.protocol.errors import ConfigError

DEFAULT_TIMESTAMP_AGO_MS = 30 * 60 * 1000
"""How long ago CONSUME_FROM_TIMESTAMP begins by default, as in RocketMQ."""


def consume_from_where_of(settings: MemberSettings, now_ms: int) -> ConsumeFromWhere:
    """Returns where a group begins that has no offset yet.

    Raises:
        ConfigError: `consume_from_where` or `message_model` is no such word.
    """
    if settings.message_model not in (CLUSTERING, BROADCASTING):
        raise ConfigError(
            f"message_model={settings.message_model!r} is none of {CLUSTERING}, {BROADCASTING}"
        )
    timestamp_ms = settings.consume_timestamp_ms
    return ConsumeFromWhere(
        settings.consume_from_where,
        now_ms - DEFAULT_TIMESTAMP_AGO_MS if timestamp_ms is None else timestamp_ms,
    )


async def open_offsets(
    group: str, instance: ClientInstance, settings: MemberSettings, from_where: ConsumeFromWhere
) -> OffsetStore:
    """Opens the offset store of a member that starts.

    Raises:
        OffsetFileError: with broadcasting, the file of the offsets cannot be read.
    """
    in_queues = QueueOffsets(instance.pool, instance.routes, instance.settings.call_timeout_ms)
    if settings.message_model != BROADCASTING:
        return RemoteBrokerOffsetStore(group, in_queues, from_where)
    given = settings.local_offsets_path
    member = lasting_id(instance.settings.instance_name)
    path = default_path(member, group) if given is None else Path(given)
    offsets = LocalFileOffsetStore(group, path, in_queues, from_where)
    await offsets.open()
    return offsets
