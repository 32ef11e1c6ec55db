"""Subscription groups (`broker/subscription/SubscriptionGroupManager`)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

import msgspec

from pocketmq.broker.store.disk.errors import WriteFailedError
from pocketmq.broker.store.metadata.metadata import Metadata
from pocketmq.protocol.bodies.clients import GroupConfig
from pocketmq.protocol.bodies.topics import DataVersion
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import GroupMissingError, IllegalNameError, response_error
from pocketmq.protocol.names import names
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.live import Live

_VERSION = "group_version"
_FORBIDDEN = "group_forbidden"
_READ_BIT = 1 << 2
"""RocketMQ's number for reading in its table of what groups must not do."""

log = logging.getLogger("pocketmq.broker")


class GroupTable:
    """Groups by name, kept in the metadata.

    Args:
        metadata: where they are kept.
        clock: dates the versions.
        auto_create: make unknown groups on first use (autoCreateSubscriptionGroup).
    """

    def __init__(self, metadata: Metadata, clock: Clock, auto_create: Live[bool]) -> None:
        self._metadata, self._clock, self._auto_create = metadata, clock, auto_create
        self._unsaved: dict[str, GroupConfig] = {}
        self._groups = {name: GroupConfig(group_name=name) for name in names.BUILT_IN_GROUPS}
        for name, text in metadata.groups().items():
            self._groups[name] = msgspec.json.decode(text, type=GroupConfig)
        state = metadata.state(_VERSION)
        self.version = (
            msgspec.json.decode(state, type=DataVersion)
            if state
            else DataVersion(timestamp=clock.now_ms())
        )
        state = metadata.state(_FORBIDDEN)
        self.forbidden: dict[str, dict[str, int]] = msgspec.json.decode(state) if state else {}

    def __iter__(self) -> Iterator[GroupConfig]:
        return iter(self._groups.values())

    def get(self, name: str) -> GroupConfig | None:
        """Returns a group's settings; None if it does not exist."""
        return self._groups.get(name)

    def find(self, name: str) -> GroupConfig:
        """Returns a group's settings; creates the group if that is allowed.

        Raises:
            GroupMissingError: it does not exist and groups are not made on first use, or not of
                that name.
        """
        config = self._groups.get(name)
        if config is not None:
            return config
        self._check_new(name)
        log.info("creating group %s on its first use", name)
        config = GroupConfig(group_name=name)
        self._make([config])
        return config

    def find_all(self, wanted: Iterable[str]) -> list[GroupConfig]:
        """Returns the settings of many groups, creating missing ones in one write.

        Groups that cannot be created are left out.
        """
        out: list[GroupConfig] = []
        new: list[GroupConfig] = []
        for name in wanted:
            config = self._groups.get(name)
            if config is None:
                try:
                    self._check_new(name)
                except GroupMissingError:
                    continue
                config = GroupConfig(group_name=name)
                new.append(config)
            out.append(config)
        if new:
            log.info("creating %d groups on their first use: %s, …", len(new), new[0].group_name)
            self._make(new)
        return out

    def _make(self, new: list[GroupConfig]) -> None:
        """Creates groups on their first use, also while the disk takes no writes."""
        try:
            self.put(*new)
        except WriteFailedError as e:
            log.warning("group %s, … stays in memory for now: %s", new[0].group_name, e)
            made = {config.group_name: config for config in new}
            self._groups.update(made)
            self._unsaved.update(made)

    def save(self) -> None:
        """Writes the groups that the disk did not take when they were created.

        Raises:
            WriteFailedError: it does not take them now either.
        """
        if self._unsaved:
            self._save(list(self._unsaved.values()))

    def _save(self, configs: list[GroupConfig]) -> None:
        self._metadata.save_groups(
            [(c.group_name, msgspec.json.encode(c).decode()) for c in configs]
        )
        for config in configs:
            self._groups[config.group_name] = config
            self._unsaved.pop(config.group_name, None)
        self._changed()

    def _check_new(self, name: str) -> None:
        if not self._auto_create.now:
            raise response_error(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"subscription group [{name}] does not exist, and autoCreateSubscriptionGroup is "
                f"off: create it first (updateSubGroup)",
            )
        try:
            names.check_group(name)
        except IllegalNameError as e:
            raise response_error(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"subscription group [{name}] does not exist and cannot be created: {e}",
            ) from e

    def put(self, *configs: GroupConfig) -> None:
        """Creates or changes all of the groups or none; groups with these settings are left alone.

        Raises:
            WriteFailedError: nothing was changed.
        """
        changed = [c for c in configs if self._groups.get(c.group_name) != c]
        if not changed:
            return
        self._save(changed)

    def remove(self, name: str) -> bool:
        """Forgets a group; False if it was not there."""
        if name not in self._groups:
            return False
        self._metadata.remove_group(name)
        del self._groups[name]
        self._unsaved.pop(name, None)
        if name in self.forbidden:
            self._forbid({g: topics for g, topics in self.forbidden.items() if g != name})
        self._changed()
        return True

    def _changed(self) -> None:
        self.version = self.version.next(self._clock.now_ms())
        self._metadata.set_state(_VERSION, msgspec.json.encode(self.version).decode())

    # -- topics that a group must not read (`SubscriptionGroupManager#updateForbidden`) ---------

    def may_read(self, group: str, topic: str) -> bool:
        """Whether the group may read the topic, as `set_readable` says."""
        return not self.forbidden or topic not in self.forbidden.get(group, ())

    def set_readable(self, group: str, topic: str, *, readable: bool) -> None:
        """Allows or forbids a group to read a topic.

        Raises:
            WriteFailedError: nothing was changed.
        """
        if readable == self.may_read(group, topic):
            return
        topics = dict(self.forbidden.get(group, {}))
        if readable:
            topics.pop(topic, None)
        else:
            topics[topic] = _READ_BIT
        table = {**self.forbidden, group: topics}
        self._forbid({g: t for g, t in table.items() if t})
        self._changed()

    def _forbid(self, table: dict[str, dict[str, int]]) -> None:
        self._metadata.set_state(_FORBIDDEN, msgspec.json.encode(table).decode())
        self.forbidden = table
