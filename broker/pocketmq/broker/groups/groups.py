"""Subscription groups (`broker/subscription/SubscriptionGroupManager`)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from itertools import islice

import msgspec

from pocketmq.broker.name_limits import NameLimits
from pocketmq.broker.store.disk.errors import WriteFailedError
from pocketmq.broker.store.metadata.metadata import Metadata
from pocketmq.protocol.bodies.clients import GroupConfig
from pocketmq.protocol.bodies.topics import DataVersion
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import GroupMissingError, IllegalNameError, response_error
from pocketmq.protocol.names import names
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.live import Live
from pocketmq.transport.connection import Connection

_VERSION = "group_version"
FORBIDDEN_STATE = "group_forbidden"
"""Under this key the metadata keeps which topics groups must not read."""

_PROVISIONAL = ',"provisional":true}'
"""The end of the JSON of a provisional group; readers that do not know it ignore it."""

_READ_BIT = 1 << 2
"""RocketMQ's number for reading in its table of what groups must not do."""

log = logging.getLogger("pocketmq.broker")


class GroupTable:
    """Groups by name, kept in the metadata.

    Args:
        metadata: where they are kept.
        clock: dates the versions.
        auto_create: make unknown groups on first use (autoCreateSubscriptionGroup).
        limits: how many there may be.

    Attributes:
        provisional: groups that were made on their first use, and of which it is not known that
            they did anything since.
    """

    def __init__(
        self,
        metadata: Metadata,
        clock: Clock,
        auto_create: Live[bool],
        limits: Live[NameLimits] | None = None,
    ) -> None:
        self._metadata, self._clock, self._auto_create = metadata, clock, auto_create
        self._unsaved: dict[str, GroupConfig] = {}
        self._limits = limits or Live(NameLimits())
        self.load()

    def load(self) -> None:
        """Reads all groups from the metadata."""
        metadata = self._metadata
        self.provisional: dict[str, None] = {}
        self._groups = {name: GroupConfig(group_name=name) for name in names.BUILT_IN_GROUPS}
        for name, text in metadata.groups().items():
            self._groups[name] = msgspec.json.decode(text, type=GroupConfig)
            if text.endswith(_PROVISIONAL):
                self.provisional[name] = None
        state = metadata.state(_VERSION)
        self.version = (
            msgspec.json.decode(state, type=DataVersion)
            if state
            else DataVersion(timestamp=self._clock.now_ms())
        )
        state = metadata.state(FORBIDDEN_STATE)
        self.forbidden: dict[str, dict[str, int]] = msgspec.json.decode(state) if state else {}

    def __iter__(self) -> Iterator[GroupConfig]:
        return iter(self._groups.values())

    def get(self, name: str) -> GroupConfig | None:
        """Returns a group's settings; None if it does not exist."""
        return self._groups.get(name)

    def find(self, name: str, connection: Connection | None = None) -> GroupConfig:
        """Returns a group's settings; creates the group if that is allowed.

        Args:
            name: of the group.
            connection: the client's, whose new names are limited; None limits nobody.

        Raises:
            GroupMissingError: it does not exist and groups are not made on first use, or not of
                that name, or there are too many.
        """
        config = self._groups.get(name)
        if config is not None:
            return config
        self._check_new(name, len(self._groups), connection)
        log.info("creating group %s on its first use", name)
        config = GroupConfig(group_name=name)
        self._make([config])
        return config

    def find_for_retry(self, name: str, connection: Connection | None = None) -> GroupConfig:
        """Does what `find` does, and keeps the group for good: a message is for it.

        Raises:
            GroupMissingError: as `find` does.
            ResponseError: 14, the disk does not take it.
        """
        config = self.find(name, connection)
        try:
            self.confirm([name])
        except WriteFailedError as e:
            raise response_error(ResponseCode.SERVICE_NOT_AVAILABLE, str(e)) from e
        return config

    def confirm(self, names: Iterable[str]) -> None:
        """Keeps groups for good, whether or not they do anything.

        Raises:
            WriteFailedError: nothing was changed.
        """
        self._save([self._groups[name] for name in names if name in self.provisional])

    def find_all(
        self, wanted: Iterable[str], connection: Connection | None = None
    ) -> list[GroupConfig]:
        """Returns the settings of many groups, creating missing ones.

        Groups that cannot be created are left out.
        """
        out: list[GroupConfig] = []
        new: list[GroupConfig] = []
        for name in wanted:
            config = self._groups.get(name)
            if config is None:
                try:
                    self._check_new(name, len(self._groups) + len(new), connection)
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
        """Creates groups on their first use.

        They are saved with others, a little later: a name must not cost a write, nor fail while the
        disk takes none. A crash before only means that their next use makes them again.
        """
        for config in new:
            name = config.group_name
            self._groups[name] = self._unsaved[name] = config
            self.provisional[name] = None

    def save(self, count_max: int | None = None) -> bool:
        """Writes groups that were made on their first use; True if there are more of them.

        Args:
            count_max: so many of them at most; None writes all.

        Raises:
            WriteFailedError: the disk does not take them now.
        """
        self._save(list(islice(self._unsaved.values(), count_max)), _PROVISIONAL)
        return bool(self._unsaved)

    def _save(self, configs: list[GroupConfig], end: str = "}") -> None:
        if not configs:
            return
        self._metadata.save_groups(
            [(c.group_name, msgspec.json.encode(c).decode()[:-1] + end) for c in configs]
        )
        for config in configs:
            name = config.group_name
            self._groups[name] = config
            self._unsaved.pop(name, None)
            if end != _PROVISIONAL:
                self.provisional.pop(name, None)
        self._changed()

    def check_room(self, configs: Iterable[GroupConfig]) -> None:
        """Refuses new groups if there would be too many.

        Raises:
            ResponseError: 29, there would.
        """
        new = {config.group_name for config in configs} - self._groups.keys()
        if new and (reason := self._limits.now.groups_full(len(self._groups) + len(new) - 1)):
            raise response_error(ResponseCode.INVALID_PARAMETER, reason)

    def _check_new(self, name: str, count: int, connection: Connection | None) -> None:
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
        limits = self._limits.now
        reason = limits.groups_full(count) or limits.count_new(connection)
        if reason:
            raise response_error(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"subscription group [{name}] does not exist and cannot be created: {reason}",
            )

    def put(self, *configs: GroupConfig) -> None:
        """Creates or changes all of the groups or none; groups with these settings are left alone.

        Raises:
            WriteFailedError: nothing was changed.
        """
        self._save(
            [
                config
                for config in configs
                if self._groups.get(config.group_name) != config
                or config.group_name in self.provisional
            ]
        )

    def remove(self, *names: str) -> bool:
        """Forgets groups; False if none of them was there.

        Raises:
            WriteFailedError: nothing was changed.
        """
        known = [name for name in names if name in self._groups]
        if not known:
            return False
        self._metadata.remove_groups(known)
        for name in known:
            del self._groups[name]
            self._unsaved.pop(name, None)
            self.provisional.pop(name, None)
        if not self.forbidden.keys().isdisjoint(known):
            self._forbid({g: topics for g, topics in self.forbidden.items() if g not in known})
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
        self._metadata.set_state(FORBIDDEN_STATE, msgspec.json.encode(table).decode())
        self.forbidden = table
