"""The topics of a broker (`broker/topic/TopicConfigManager`)."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from pocketmq.broker.name_limits import NameLimits
from pocketmq.broker.store.disk.errors import WriteFailedError
from pocketmq.broker.store.metadata.metadata import Metadata
from pocketmq.broker.topics.topic_changes import TopicChanges
from pocketmq.protocol.bodies.topics import DataVersion, TopicConfig
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import response_error
from pocketmq.protocol.flags import PERM_INHERIT, PERM_READ, PERM_WRITE
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.listeners import Listeners
from pocketmq.runtime.live import Live
from pocketmq.transport.connection import Connection

log = logging.getLogger("pocketmq.broker")

_RW = PERM_READ | PERM_WRITE
QUEUE_NUMS_MAX = 65536
DLQ_QUEUE_NUMS = 1
_VERSION = "topic_version"
_encode = msgspec.json.encode


class ChangedTopics(NamedTuple):
    """The topics that were made or changed after some version, and the names of removed ones."""

    changed: list[TopicConfig]
    removed: list[str]


class TopicTable:
    """Topics by name, kept in the metadata; every change makes a new data version.

    Args:
        metadata: where they are kept.
        clock: dates the versions.
        limits: how many there may be.

    Attributes:
        version: the data version, a new one after each change.
        changed: called after each change of the topics.
    """

    def __init__(
        self, metadata: Metadata, clock: Clock, limits: Live[NameLimits] | None = None
    ) -> None:
        self._metadata, self._clock = metadata, clock
        self._limits = limits or Live(NameLimits())
        self.changed = Listeners[[]]()
        self._unsaved: dict[str, TopicConfig] = {}
        self.load()

    def load(self) -> None:
        """Reads all topics from the metadata."""
        self._topics = {
            name: msgspec.json.decode(text, type=TopicConfig)
            for name, text in self._metadata.topics().items()
        }
        state = self._metadata.state(_VERSION)
        self.version = (
            msgspec.json.decode(state, type=DataVersion)
            if state
            else DataVersion(timestamp=self._clock.now_ms())
        )
        self._changes = TopicChanges(self.version.counter)

    def __len__(self) -> int:
        return len(self._topics)

    def __iter__(self) -> Iterator[TopicConfig]:
        return iter(self._topics.values())

    def __contains__(self, name: str) -> bool:
        return name in self._topics

    def get(self, name: str) -> TopicConfig | None:
        """Returns a topic's settings; None if it does not exist."""
        return self._topics.get(name)

    def put(self, *configs: TopicConfig) -> None:
        """Creates or changes topics; one that has the same settings already is left alone."""
        changed = [c for c in configs if self._topics.get(c.topic_name) != c]
        if not changed:
            return
        self._metadata.save_topics([(c.topic_name, _encode(c).decode()) for c in changed])
        for config in changed:
            self._unsaved.pop(config.topic_name, None)
        self._keep(changed)
        self._changed()

    def _keep(self, configs: list[TopicConfig]) -> None:
        version = self.version.counter + 1
        for config in configs:
            self._topics[config.topic_name] = config
            self._changes.note(config.topic_name, version)

    def save(self) -> None:
        """Writes the topics of groups that the disk did not take when they were created.

        Raises:
            WriteFailedError: it does not take them now either.
        """
        if self._unsaved:
            unsaved = [(name, _encode(config).decode()) for name, config in self._unsaved.items()]
            self._metadata.save_topics(unsaved)
            self._unsaved.clear()
            self._metadata.set_state(_VERSION, _encode(self.version).decode())

    def remove(self, name: str) -> bool:
        """Forgets a topic; False if it was not there. Its logs are the store's to delete."""
        if name not in self._topics:
            return False
        self._metadata.remove_topic(name)
        self.forget(name)
        return True

    def remove_all(self, names: Collection[str]) -> None:
        """Forgets topics without logs, in one write.

        Raises:
            WriteFailedError: nothing was changed.
        """
        if names:
            self._metadata.remove_topics(names)
            for name in names:
                del self._topics[name]
                self._unsaved.pop(name, None)
            self._note_removed(names)

    def forget(self, name: str) -> None:
        """Forgets a topic that the metadata has forgotten already, with its logs.

        Raises:
            WriteFailedError: it is forgotten, but the new version is not kept.
        """
        self._unsaved.pop(name, None)
        if self._topics.pop(name, None) is not None:
            self._note_removed([name])

    def _note_removed(self, names: Iterable[str]) -> None:
        for name in names:
            self._changes.note(name, self.version.counter + 1)
        self._changed()

    def renew_version(self) -> None:
        """Makes a new version in which every topic counts as changed."""
        self._changes.forget_all(self.version.counter + 1)
        self._changed()

    def enter_epoch(self, epoch: int) -> None:
        """Counts the leadership of a broker set in the version: name servers believe the latest."""
        self.version = msgspec.structs.replace(self.version, state_version=epoch)
        self.renew_version()

    def changed_since(self, version: DataVersion) -> ChangedTopics | None:
        """Returns the topics that changed after a version, the newest first.

        None if the whole table has to be sent, because the version is too old.
        """
        names = self._changes.since(version.counter)
        if names is None:
            return None
        return ChangedTopics(
            [self._topics[name] for name in names if name in self._topics],
            [name for name in names if name not in self._topics],
        )

    def _changed(self) -> None:
        self.version = self.version.next(self._clock.now_ms())
        self.changed.notify()  # also if the version cannot be kept: the topics are changed
        self._metadata.set_state(_VERSION, _encode(self.version).decode())

    def check_room(self, configs: Iterable[TopicConfig]) -> None:
        """Refuses new topics if there would be too many.

        Raises:
            ResponseError: 29, there would.
        """
        new = {config.topic_name for config in configs} - self._topics.keys()
        if new and (reason := self._limits.now.topics_full(len(self._topics) + len(new) - 1)):
            raise response_error(ResponseCode.INVALID_PARAMETER, reason)

    def create_on_send(
        self,
        name: str,
        default_topic: str,
        queue_nums: int,
        broker_queue_nums: int,
        connection: Connection | None = None,
    ) -> TopicConfig | None:
        """Creates a topic after the model of the default topic; None if that is not allowed.

        Args:
            name: of the new topic.
            default_topic: the model, normally TBW102; it must carry the inherit bit.
            queue_nums: how many queues the client wishes.
            broker_queue_nums: how many the broker allows.
            connection: the sender's, whose new names are limited; None limits nobody.

        Raises:
            ResponseError: 17, there are too many topics, or the connection has named too many.
        """
        model = self._topics.get(default_topic)
        if model is None or not model.perm & PERM_INHERIT:
            return None
        limits = self._limits.now
        reason = limits.topics_full(len(self._topics)) or limits.count_new(connection)
        if reason:
            raise response_error(
                ResponseCode.TOPIC_NOT_EXIST,
                f"topic[{name}] not exist, and cannot be created: {reason}",
            )
        nums = max(1, min(queue_nums, model.write_queue_nums, broker_queue_nums))
        config = TopicConfig(
            topic_name=name,
            read_queue_nums=nums,
            write_queue_nums=nums,
            perm=model.perm & ~PERM_INHERIT,
            topic_sys_flag=model.topic_sys_flag,
        )
        log.info("creating topic %s with %d queues on its first message", name, nums)
        self.put(config)
        return config

    def create_for_group(self, name: str, queue_nums: int, sys_flag: int = 0) -> TopicConfig:
        """Returns the retry or dead-letter topic of a group, which the first call creates."""
        config = self._topics.get(name)
        if config is None:
            config = _of_group(name, queue_nums, sys_flag)
            self._make_for_groups([config])
        return config

    def create_for_groups(self, queue_nums: Mapping[str, int]) -> None:
        """Creates the missing topics of groups, given their queue counts by name, in one write."""
        new = (item for item in queue_nums.items() if item[0] not in self._topics)
        self._make_for_groups([_of_group(name, nums) for name, nums in new])

    def _make_for_groups(self, new: list[TopicConfig]) -> None:
        """Creates topics of groups, also while the disk takes no writes: consumers need them."""
        try:
            self.put(*new)
        except WriteFailedError as e:
            log.warning("topic %s, … stays in memory for now: %s", new[0].topic_name, e)
            self._unsaved.update({config.topic_name: config for config in new})
            self._keep(new)
            self.version = self.version.next(self._clock.now_ms())
            self.changed.notify()


def _of_group(name: str, queue_nums: int, sys_flag: int = 0) -> TopicConfig:
    return TopicConfig(
        topic_name=name,
        read_queue_nums=queue_nums,
        write_queue_nums=queue_nums,
        perm=_RW,
        topic_sys_flag=sys_flag,
    )
