"""Writing a seed file from a running cluster."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec
import yaml

from pocketmq.client.admin import Admin
from pocketmq.client.consumers.pull_consumer import PullConsumer
from pocketmq.client.copying.seeds.model import (
    GroupSettings,
    TopicSettings,
    group_settings,
    topic_settings,
)
from pocketmq.protocol.errors import UsageError
from pocketmq.protocol.messages.message import MessageQueue, ReceivedMessage
from pocketmq.protocol.messages.message_json import NOT_SENT_AGAIN, message_document
from pocketmq.protocol.names.names import BUILT_IN_GROUPS, DLQ_PREFIX, RETRY_PREFIX, is_system_topic
from pocketmq.runtime.yaml_document import SIZE_MAX

MESSAGES_MAX = 10_000
"""Messages of each queue that a snapshot may be asked for."""

OWN_GROUPS = frozenset({*BUILT_IN_GROUPS, "pocketmq_cli", "pocketmq_bench"})
"""Groups of tools, which come when they are used."""

MASTER_ID = 0

Settings = TopicSettings | GroupSettings


async def take_snapshot(namesrv: str, messages: int = 0) -> dict[str, Any]:
    """Returns the topics, groups and messages of a cluster as a seed file has them.

    Topics and groups of the brokers' own are left out, and so are retry and dead-letter topics,
    which come with their groups. Offsets are counted from the first message that is taken along:
    a cluster that is made from this has nothing before it.

    Args:
        namesrv: the cluster's name servers.
        messages: how many messages of each queue are taken, the newest.

    Raises:
        UsageError: more than `MESSAGES_MAX`, or they are too large for a seed file.
        NoNameServerError, ResponseError, ConnectError: the cluster cannot be asked.
    """
    if not 0 <= messages <= MESSAGES_MAX:
        raise UsageError(
            f"{messages} messages of a queue: between 0 and {MESSAGES_MAX} can be taken"
        )
    async with (
        Admin(namesrv) as admin,
        PullConsumer("pocketmq_cli", namesrv, register=False) as consumer,
    ):
        return await _Snapshot(admin, consumer, messages).take()


def snapshot_text(snapshot: Mapping[str, Any]) -> str:
    """Renders a snapshot as a YAML file.

    Raises:
        UsageError: it is larger than a seed file may be.
    """
    text = yaml.dump(dict(snapshot), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
    _check_size(len(text.encode()))
    return text


class _Dumper(yaml.SafeDumper):
    """Writes all line breaks but a plain one as escapes: YAML's readers make them plain."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    style = '"' if _BREAKS.search(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_BREAKS = re.compile("[\r\x85\u2028\u2029]")
_Dumper.add_representer(str, _represent_text)


def _check_size(size: int) -> None:
    if size > SIZE_MAX:
        raise UsageError(
            f"the snapshot is larger than the {SIZE_MAX} bytes that a seed file may have: take "
            f"fewer messages, or record them (`pocketmq record`) and name the file in the seed file"
        )


class _Snapshot:
    def __init__(self, admin: Admin, consumer: PullConsumer, messages: int) -> None:
        self._admin, self._consumer, self._messages = admin, consumer, messages
        self._first: dict[MessageQueue, int] = {}
        self._size = 0

    async def take(self) -> dict[str, Any]:
        rows = await self._admin.brokers()
        self._masters = {r.broker_name: r.address for r in rows if r.broker_id == MASTER_ID}
        own = {r.cluster for r in rows} | {r.broker_name for r in rows}
        own |= {f"{row.cluster}_REPLY_TOPIC" for row in rows}
        topics = {
            name: await self._topic(name)
            for name in await self._admin.topics()
            if not (is_system_topic(name) or name in own)
            and not name.startswith((RETRY_PREFIX, DLQ_PREFIX))
        }
        groups = {
            name: await self._group(name, topics)
            for name in await self._admin.groups()
            if name not in OWN_GROUPS
        }
        return {"topics": topics, "groups": groups}

    # -- topics -------------------------------------------------------------------------------

    async def _topic(self, name: str) -> dict[str, Any]:
        route = await self._admin.topic_route(name)
        on = {
            data.broker_name: topic_settings(
                await self._admin.topic_config(name, self._masters[data.broker_name])
            )
            for data in route.queue_datas
            if data.broker_name in self._masters
        }
        entry = self._shared(on)
        messages: list[dict[str, Any]] = []
        for row in await self._admin.topic_stats(name):
            first = max(row.min_offset, row.max_offset - self._messages)
            self._first[row.queue] = first
            messages += await self._messages_of(row.queue, first, row.max_offset)
        return entry | ({"messages": messages} if messages else {})

    async def _messages_of(self, queue: MessageQueue, first: int, end: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        while first < end:
            result = await self._consumer.pull(queue, first)
            for message in result.messages:
                if message.queue_offset < end:
                    found.append(_entry(message))
                    self._size += message.store_size + len(message.body)
            _check_size(self._size)
            if result.next_offset <= first:
                break
            first = result.next_offset
        return found

    # -- groups -------------------------------------------------------------------------------

    async def _group(self, name: str, topics: Mapping[str, object]) -> dict[str, Any]:
        configs = await self._admin.group_configs(name)
        on = {
            broker: group_settings(configs[address])
            for broker, address in self._masters.items()
            if address in configs
        }
        offsets: dict[str, dict[str, dict[int, int]]] = {}
        for topic in await self._admin.group_topics(name):
            for queue, first in self._first.items():
                if queue.topic != topic or topic not in topics:
                    continue
                offset = await self._admin.committed_offset(name, queue)
                if offset is not None:
                    by_queue = offsets.setdefault(topic, {}).setdefault(queue.broker_name, {})
                    by_queue[queue.queue_id] = max(0, offset - first)
        return self._shared(on) | ({"offsets": offsets} if offsets else {})

    def _shared(self, on: Mapping[str, Settings]) -> dict[str, Any]:
        """Returns settings that all brokers have in common once, the others by broker."""
        values = {broker: msgspec.to_builtins(settings) for broker, settings in on.items()}
        for value in values.values():
            for key in [key for key, entry in value.items() if entry is None]:
                del value[key]
        different = list(values.values())
        is_everywhere = values.keys() == self._masters.keys()
        if is_everywhere and all(value == different[0] for value in different):
            return dict(different[0])
        return {"brokers": values}


def _entry(message: ReceivedMessage) -> dict[str, Any]:
    """Converts a message to its entry in a seed file."""
    document = message_document(message)
    own = {k: v for k, v in document["properties"].items() if k not in NOT_SENT_AGAIN}
    entry: dict[str, Any] = {k: document[k] for k in ("body", "bodyBase64") if k in document}
    for key in ("keys", "tags", "flag"):
        if document[key]:
            entry[key] = document[key]
    if own:
        entry["properties"] = own
    return entry | {
        "broker": message.broker_name,
        "queue": message.queue_id,
        "msgId": message.msg_id,
    }
