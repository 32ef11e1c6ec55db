"""Applying a seed to a running cluster: topics and groups anew, messages and offsets once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import msgspec

from pocketmq.client.admin import Admin
from pocketmq.client.copying.seeds.loading import MessageLoading
from pocketmq.client.copying.seeds.model import (
    GroupSettings,
    QueueOffsets,
    TopicSettings,
    group_config,
    merged,
    topic_config,
)
from pocketmq.client.copying.seeds.seed_file import Seed
from pocketmq.client.producers.producer import Producer
from pocketmq.protocol.bodies.topics import TopicConfig
from pocketmq.protocol.errors import ConfigError
from pocketmq.protocol.flags import PERM_READ, PERM_WRITE
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.names.namespaces import Namespace

CALLS_MAX = 16
"""Topics or groups that are made side by side."""

MASTER_ID = 0


class SeedReport(msgspec.Struct):
    """What applying a seed has changed.

    Attributes:
        topics, groups, messages: how many were set, and loaded.
        notes: what the seed says and was not done, with the reason.
    """

    topics: int = 0
    groups: int = 0
    messages: int = 0
    notes: list[str] = msgspec.field(default_factory=list)


async def apply_seed(seed: Seed, namesrv: str, *, namespace: str = "") -> SeedReport:
    """Creates the topics and groups of a seed in a cluster, and loads messages and offsets.

    Topics and groups get the seed's settings each time; others stay as they are. Messages are
    loaded once for the life of a topic, and offsets are set where a group has none, so that the
    same seed can be applied again.

    Args:
        seed: what `read_seed` gave.
        namesrv: the cluster's name servers.
        namespace: in which its topics and groups are.

    Raises:
        ConfigError: it names a broker or queue that the cluster does not have; names the place.
        OperatingError: something could not be done.
    """
    async with (
        Admin(namesrv) as admin,
        Producer("pocketmq_seed", namesrv, namespace=namespace) as producer,
    ):
        brokers = {r.broker_name: r.address for r in await admin.brokers()
                   if r.broker_id == MASTER_ID}  # fmt: skip
        return await _Applying(seed, admin, producer, brokers, Namespace(namespace)).run()


class _Applying:
    def __init__(
        self,
        seed: Seed,
        admin: Admin,
        producer: Producer,
        brokers: Mapping[str, str],
        namespace: Namespace,
    ) -> None:
        self._seed, self._admin, self._brokers = seed, admin, brokers
        self._namespace = namespace
        self._loading = MessageLoading(seed, admin, producer, namespace)
        self._permits = asyncio.Semaphore(CALLS_MAX)
        self._report = SeedReport()

    async def run(self) -> SeedReport:
        self._check_brokers()
        known = set(await self._admin.topics())
        await asyncio.gather(*(self._topic(name, known) for name in self._seed.topics))
        await asyncio.gather(*(self._group(name) for name in self._seed.groups))
        return self._report

    def _check_brokers(self) -> None:
        for kind, entries in (("topics", self._seed.topics), ("groups", self._seed.groups)):
            for name, entry in entries.items():
                for broker in entry.brokers or ():
                    if broker not in self._brokers:
                        raise ConfigError(
                            f"{self._seed.at(kind, name, 'brokers', broker)}: there is no broker "
                            f"{broker}; this cluster has {', '.join(sorted(self._brokers))}"
                        )

    # -- topics -------------------------------------------------------------------------------

    async def _topic(self, name: str, known: set[str]) -> None:
        seed = self._seed.topics[name]
        on = seed.brokers or dict.fromkeys(self._brokers)
        wire_name = self._namespace.wrap(name)
        configs = {
            broker: topic_config(wire_name, merged(seed, change, TopicSettings))
            for broker, change in on.items()
        }
        async with self._permits:
            if self._seed.digest(name):
                await self._load(name, configs, is_new=wire_name not in known)
            await self._put(configs)
        self._report.topics += 1

    async def _load(self, name: str, configs: dict[str, TopicConfig], *, is_new: bool) -> None:
        note = None if is_new else await self._loading.note_of(name)
        if note is not None and note.digest != self._seed.digest(name):
            self._report.notes.append(
                f"{self._seed.at('topics', name)}: topic {name} has had other messages of a seed: "
                f"those that stand here now are not loaded; delete the topic to load them"
            )
        elif note is None or not note.is_done:
            await self._put({broker: _open(config) for broker, config in configs.items()})
            write_queues = {broker: config.write_queue_nums for broker, config in configs.items()}
            self._report.messages += await self._loading.load(name, note, write_queues)

    async def _put(self, configs: dict[str, TopicConfig]) -> None:
        for broker, config in configs.items():
            await self._admin.create_topic(
                config.topic_name,
                read_queues=config.read_queue_nums,
                write_queues=config.write_queue_nums,
                perm=config.perm,
                order=config.order,
                attributes=",".join(f"+{k}={v}" for k, v in config.attributes.items()) or None,
                broker_addr=self._brokers[broker],
            )

    # -- groups -------------------------------------------------------------------------------

    async def _group(self, name: str) -> None:
        seed = self._seed.groups[name]
        on = seed.brokers or dict.fromkeys(self._brokers)
        async with self._permits:
            for broker, change in on.items():
                config = group_config(
                    self._namespace.wrap(name), merged(seed, change, GroupSettings)
                )
                config.attributes = {f"+{k}": v for k, v in config.attributes.items()}
                await self._admin.create_group(config, broker_addr=self._brokers[broker])
            for topic, wanted in seed.offsets.items():
                await self._set_offsets(name, topic, wanted)
        self._report.groups += 1

    async def _set_offsets(self, name: str, topic: str, wanted: str | QueueOffsets) -> None:
        group, ends = self._namespace.wrap(name), {}
        for row in await self._admin.topic_stats(self._namespace.wrap(topic)):
            ends[row.queue] = (row.min_offset, row.max_offset)
        if isinstance(wanted, str):
            offsets = {q: low if wanted == "earliest" else high for q, (low, high) in ends.items()}
        else:
            offsets = {}
            for broker, by_queue in wanted.items():
                for queue_id, offset in by_queue.items():
                    queue = MessageQueue(self._namespace.wrap(topic), broker, queue_id)
                    self._check_offset(name, queue, offset, ends)
                    offsets[queue] = offset
        for queue, offset in offsets.items():
            if await self._admin.committed_offset(group, queue) is None:
                await self._admin.commit_offset(group, queue, offset)

    def _check_offset(
        self, name: str, queue: MessageQueue, offset: int,
        ends: Mapping[MessageQueue, tuple[int, int]],
    ) -> None:  # fmt: skip
        topic = self._namespace.unwrap(queue.topic)
        place = ("groups", name, "offsets", topic, queue.broker_name, queue.queue_id)
        if queue not in ends:
            raise ConfigError(f"{self._seed.at(*place)}: {queue} does not exist")
        high = ends[queue][1]
        if offset > high:
            raise ConfigError(
                f"{self._seed.at(*place)}: offset {offset} is behind the end of {queue}, which is "
                f"{high}: a consumer would miss what comes next"
            )


def _open(config: TopicConfig) -> TopicConfig:
    """Returns a topic's settings with the permissions that loading its messages needs."""
    return msgspec.structs.replace(
        config,
        perm=PERM_READ | PERM_WRITE,
        read_queue_nums=config.queue_nums_max,
        write_queue_nums=config.queue_nums_max,
    )
