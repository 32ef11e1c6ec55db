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
from pocketmq.client.settings import InstanceSettings, MemberSettings
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
    path, old_path = _paths(group, instance.settings, settings.local_offsets_path)
    offsets = LocalFileOffsetStore(
        group, path, in_queues, from_where, instance.routes.cluster_of, old_path
    )
    await offsets.open()
    return offsets


def _paths(group: str, settings: InstanceSettings, given: str | None) -> tuple[Path, Path | None]:
    """Returns the path of a member's file, and of the one that was not told by namespaces."""
    if given is not None:
        return Path(given), None
    namespace = settings.namespace or settings.namespace_v2
    folder, member = settings.local_offsets_dir, lasting_id(settings.instance_name)
    path = default_path(folder, namespace, member, group)
    is_new = folder is not None or not namespace
    return path, None if is_new else default_path(None, "", member, group)
