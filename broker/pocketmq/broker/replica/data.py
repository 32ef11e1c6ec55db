"""What a follower knows besides messages, in step with what its leader tells."""

from __future__ import annotations

from typing import Any

from pocketmq.auth.directory import UserDirectory
from pocketmq.auth.stored import KEY_PREFIX
from pocketmq.broker.config.config import BrokerConfig
from pocketmq.broker.config.live_settings import SETTINGS_STATE, LiveSettings
from pocketmq.broker.groups.groups import FORBIDDEN_STATE
from pocketmq.broker.name_limits import NameLimits
from pocketmq.broker.parts import load_users
from pocketmq.broker.replica.tables import ReplicaGroups, ReplicaOffsets, ReplicaTopics
from pocketmq.broker.replication.items import Change, Offsets
from pocketmq.broker.store.store import MessageStore
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.live import Live


class ReplicaData:
    """The settings, topics, groups, offsets and users of a follower.

    Args:
        store: of the broker.
        config: what the configuration says.
        clock: of the broker.

    Attributes:
        settings: the configuration, with the changes that the leader was told at run time.
        topics, groups, offsets: what the leader knows of each topic and consumer group.
        users: who may ask, and for what.

    Raises:
        ConfigError: passwords of users cannot be decrypted.
    """

    def __init__(self, store: MessageStore, config: BrokerConfig, clock: Clock) -> None:
        self._store, self._config, self._clock = store, config, clock
        self.settings = LiveSettings(config, store.metadata, clock)
        limits = self.settings.view(NameLimits.of)
        self.topics = ReplicaTopics(store.metadata, clock, limits)
        # The leader decides whether groups are made on their first use.
        self.groups = ReplicaGroups(store.metadata, clock, Live(True), limits)
        self.offsets = ReplicaOffsets(store.metadata)
        self.users: UserDirectory = load_users(store, config)

    def follow(self, change: Change | Offsets | None) -> None:
        """Takes over a change that the metadata has already; None says that all of it is new."""
        match change:
            case None:
                self._follow_all()
            case Offsets():
                self.offsets.learn(change.rows)
            case Change():
                self._follow_one(change.method, change.arguments)

    def _follow_all(self) -> None:
        self.topics.load()
        self.groups.load()
        self.offsets.load()
        self.settings.reread()
        self._follow_users()

    def _follow_one(self, method: str, arguments: tuple[Any, ...]) -> None:
        match method:
            case "save_topics":
                self.topics.learn(arguments[0])
            case "remove_topics":
                self.topics.unlearn(arguments[0])
            case "remove_topic" | "delete_topic":
                self.topics.unlearn([arguments[0]])
                self.offsets.remove_topic(arguments[0])
            case "save_groups":
                self.groups.learn(arguments[0])
            case "remove_groups":
                self.groups.unlearn(arguments[0])
            case "save_consumer_offsets":
                self.offsets.learn(arguments[0])
            case "remove_consumer_offsets":
                self.offsets.unlearn(arguments[0])
            case "set_state" | "remove_state":
                self._follow_state(arguments[0])

    def _follow_state(self, key: str) -> None:
        if key == FORBIDDEN_STATE:
            self.groups.learn_forbidden(self._store.metadata.state(key) or "{}")
        elif key == SETTINGS_STATE:
            self.settings.reread()
        elif key.startswith(KEY_PREFIX):
            self._follow_users()

    def _follow_users(self) -> None:
        if self._config.authentication_enabled:
            self.users.reload()
