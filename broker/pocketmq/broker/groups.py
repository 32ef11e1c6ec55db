"""Subscription groups (`broker/subscription/SubscriptionGroupManager`)."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import msgspec

from pocketmq.broker.store.metadata import Metadata
from pocketmq.protocol import names
from pocketmq.protocol.bodies.clients import GroupConfig
from pocketmq.protocol.bodies.topics import DataVersion
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import IllegalNameError, response_error
from pocketmq.transport.clock import Clock

log = logging.getLogger("pocketmq.broker")

BUILT_IN_GROUPS = (
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_OWNER",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_PULL",
    "CID_RMQ_SYS_TRANS",
)
"""Groups of RocketMQ's own tools, which exist on every broker."""


class GroupTable:
    """Groups by name, kept in the metadata.

    Args:
        metadata: where they are kept.
        clock: dates the versions.
        auto_create: make unknown groups on first use.
    """

    def __init__(self, metadata: Metadata, clock: Clock, *, auto_create: bool) -> None:
        self._metadata, self._clock, self._auto_create = metadata, clock, auto_create
        self._groups = {name: GroupConfig(group_name=name) for name in BUILT_IN_GROUPS}
        for name, text in metadata.groups().items():
            self._groups[name] = msgspec.json.decode(text, type=GroupConfig)
        self.version = DataVersion(timestamp=clock.now_ms())

    def __iter__(self) -> Iterator[GroupConfig]:
        return iter(self._groups.values())

    def get(self, name: str) -> GroupConfig | None:
        """A group's settings, if it exists."""
        return self._groups.get(name)

    def find(self, name: str) -> GroupConfig:
        """A group's settings; the group is made if that is allowed.

        Raises:
            GroupMissingError: it does not exist and groups are not made on first use, or not of
                that name.
        """
        config = self._groups.get(name)
        if config is not None:
            return config
        if not self._auto_create:
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
        log.info("creating group %s on its first use", name)
        config = GroupConfig(group_name=name)
        self.put(config)
        return config

    def put(self, config: GroupConfig) -> None:
        """Creates or changes a group."""
        if self._groups.get(config.group_name) == config:
            return
        self._metadata.save_group(config.group_name, msgspec.json.encode(config).decode())
        self._groups[config.group_name] = config
        self.version = self.version.next(self._clock.now_ms())

    def remove(self, name: str) -> bool:
        """Forgets a group; False if it was not there."""
        if name not in self._groups:
            return False
        self._metadata.remove_group(name)
        del self._groups[name]
        self.version = self.version.next(self._clock.now_ms())
        return True
