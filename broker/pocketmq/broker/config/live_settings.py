"""Settings that change while the broker runs, and are kept over its restarts (25)."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from typing import Protocol

import msgspec

from pocketmq.auth.settings import FIXED_KEYS as AUTH_KEYS
from pocketmq.broker.config.config import BrokerConfig
from pocketmq.protocol.bodies.brokers import SettingDetail, SettingDetails
from pocketmq.protocol.bodies.topics import DataVersion
from pocketmq.protocol.errors import ConfigError
from pocketmq.protocol.signing import MASK
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.live import Live
from pocketmq.runtime.settings import changed_settings

log = logging.getLogger("pocketmq.broker")

FIXED_KEYS = (
    AUTH_KEYS
    | {
        "advertise", "bindAddress", "brokerClusterName", "brokerIP1", "brokerId",
        "brokerName", "brokerRole", "connectionIdleTimeout", "connectionsMax", "controllerAddr",
        "etcdCertPath", "etcdKeyPath", "etcdTrustCertPath", "etcdUser",
        "enableControllerMode", "insecure", "leaderLease", "listenPort", "minInSyncReplicas",
        "slaveTimeout",
        "haMaxTimeSlaveNotCatchup",
        "maxHeldPulls", "maxHeldPullsOfConnection", "maxPopPollingSize",
        "maxOrderLocks", "maxOrderLocksOfGroup",
        "msgTraceTopicName",
        "namesrvAddr", "openFilesMax", "segmentSize", "slowReaderTimeout",
        "storePathRootDir", "timerCongestNumEachSlot", "timerPrecisionMs", "unreadSizeMax",
        "unsentSizeMax", "vipChannelEnable", "writeBufferMax",
        "grpcServerPort",
        "healthPort", "healthHost",
        "metricsExporterType", "metricsPromExporterPort", "metricsPromExporterHost",
        "metricsMaxSeries",
        "consolePort", "consoleHost", "consoleReadOnly", "consoleNoBodies", "consolePath",
        "consoleForwardedPrefix", "consoleOrigin",
    }
)  # fmt: skip
"""Keys that are read at the start: only the configuration file can change them."""

SETTINGS_STATE = "changed_settings"
"""Under this key changes are kept."""


class StateTexts(Protocol):
    """Keeps texts by name over restarts, as the store's metadata does."""

    def state(self, name: str) -> str | None:
        """The text of a name; None if there is none."""

    def set_state(self, name: str, text: str) -> None:
        """Keeps the text of a name."""


class _Change(msgspec.Struct, frozen=True):
    """A changed setting: what the configuration said at the time, and the new value."""

    configured: str
    value: str


class LiveSettings(Live[BrokerConfig]):
    """Holds the settings in force: the configuration, overlaid with the changes made at run time.

    A change is kept in the metadata, because the configuration may be a file that others write, or
    no file at all. It holds for as long as the configuration says what it said then: who changes
    the key there wins with the next start (RocketMQ writes its file anew).

    Args:
        configured: what the configuration says.
        kept: where changes are kept.
        clock: dates the versions.

    Attributes:
        now: the settings in force; each part of the broker has a view of its own settings.
        version: of them, for the tools.
    """

    __slots__ = ("_changes", "_clock", "_configured", "_kept", "_texts", "version")

    def __init__(self, configured: BrokerConfig, kept: StateTexts, clock: Clock) -> None:
        super().__init__(configured)
        self._configured = configured
        self._kept, self._clock = kept, clock
        self.version = DataVersion(timestamp=clock.now_ms())
        self._texts = _texts(configured)
        self._changes: dict[str, _Change] = {}
        self._restore()

    def _restore(self) -> None:
        state = self._kept.state(SETTINGS_STATE)
        known = {} if state is None else msgspec.json.decode(state, type=dict[str, _Change])
        for key, change in known.items():
            if self._texts.get(key) != change.configured:
                log.info("%s is as the configuration says now, no longer %s as it was changed to "
                         "at run time", key, change.value)  # fmt: skip
                continue
            try:
                self.now = changed_settings(self.now, {key: change.value})
            except ConfigError as e:  # another version of the broker knew more, or allowed more
                log.warning("a change at run time is forgotten: %s", e)
                continue
            self._changes[key] = change
            log.warning("%s is %s, as it was changed to at run time; the configuration says %s",
                        key, change.value, change.configured)  # fmt: skip

    def details(
        self, changes: Mapping[str, str], fixed: Collection[str], secret: Collection[str]
    ) -> SettingDetails:
        """Tells all settings with their defaults, and as they would be after changes.

        Args:
            changes: values as properties hold them, by key.
            fixed: keys that cannot be changed while the broker runs.
            secret: keys of which only is told that they are set.

        Raises:
            ConfigError: a key does not exist, or a value does not fit it.
        """
        wanted = _shown(changed_settings(self.now, changes), secret) if changes else {}
        now, defaults = _shown(self.now, secret), _shown(type(self.now)(), secret)
        configured = _shown(self._configured, secret)
        return SettingDetails(
            settings=[
                SettingDetail(
                    key=key,
                    value=value,
                    default=defaults[key],
                    configured=configured[key],
                    is_live=key not in fixed,
                    wanted=wanted[key] if key in changes else None,
                )
                for key, value in sorted(now.items())
            ]
        )

    def reread(self) -> None:
        """Puts the settings in force that are kept now: somebody else has changed them."""
        self.now, self._changes = self._configured, {}
        self._restore()
        self.version = self.version.next(self._clock.now_ms())
        self.replace(self.now)

    def change(self, changes: Mapping[str, str]) -> None:
        """Changes all of the given settings or none, at once and for later starts too.

        Args:
            changes: values as properties hold them, by key.

        Raises:
            ConfigError: a key does not exist, or a value does not fit it.
            WriteFailedError: they cannot be kept; nothing was changed.
        """
        config = changed_settings(self.now, changes)
        texts = _texts(config)
        known = dict(self._changes)
        for key in changes:
            known.pop(key, None)
            if texts[key] != self._texts[key]:
                known[key] = _Change(self._texts[key], texts[key])
        self._kept.set_state(SETTINGS_STATE, msgspec.json.encode(known).decode())
        self._changes = known
        self.version = self.version.next(self._clock.now_ms())
        self.replace(config)


def _shown(config: BrokerConfig, secret: Collection[str]) -> dict[str, str | None]:
    """The texts of settings as others may see them; None of what is unset."""
    unset = {key for key, value in msgspec.to_builtins(config).items() if value is None}
    return {
        key: None if key in unset else MASK if text and key in secret else text
        for key, text in _texts(config).items()
    }


def _texts(config: BrokerConfig) -> dict[str, str]:
    values = msgspec.to_builtins(config)
    return {
        key: value if isinstance(value, str) else msgspec.json.encode(value).decode()
        for key, value in values.items()
    }
