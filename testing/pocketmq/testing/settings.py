"""The options of a local cluster, and the settings of its servers that follow from them."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, field

from pocketmq.broker import BrokerConfig
from pocketmq.namesrv import NamesrvConfig
from pocketmq.protocol.bodies.clients import GroupConfig
from pocketmq.protocol.bodies.topics import TopicConfig
from pocketmq.protocol.errors import ConfigError
from pocketmq.protocol.names.names import check_group, check_topic
from pocketmq.transport.tls.cluster_certificates import ClusterCertificates

BROKERS_MAX = 26
"""Brokers of a cluster, which are named broker-a to broker-z."""

REPLICAS_MAX = 5
"""Members of a broker set."""

CLOCKS = ("offset", "virtual", "system")

LOCALHOST = "127.0.0.1"

BROKER_DEFAULTS: dict[str, Any] = {
    "bind_address": LOCALHOST,
    "disk_space_free_min": 0,
    "disk_space_warning_level_ratio": 100.0,
    "disk_space_clean_forcibly_ratio": 100.0,
    "clean_resource_interval": 600_000,
    "default_topic_queue_nums": 4,
    "broker_fast_failure_enable": False,
}
"""Settings that keep tests independent of a full or busy machine, and jumps in time quick."""

SET_DEFAULTS: dict[str, Any] = {"enable_controller_mode": True, "leader_lease": 2000}
"""Settings of members of broker sets: a leader that hangs is replaced in two seconds, not five."""

NAMESRV_DEFAULTS: dict[str, Any] = {
    "bind_address": LOCALHOST,
    "delete_topic_with_broker_registration": True,
}
"""Settings that make a deleted topic vanish from the routes, too."""

Port = Annotated[int, Meta(ge=0, le=65535)]
StructT = TypeVar("StructT", bound=msgspec.Struct)


class ClusterSettings(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The options of a `LocalCluster`.

    Attributes:
        brokers: the number of brokers, or of broker sets.
        replicas: members of each broker set; 1 is for brokers of their own.
        topics: topics to make at the start: numbers of queues, or settings of `TopicConfig`.
        groups: groups to make, each with settings of `GroupConfig`; or names, for the defaults.
        broker_settings: settings of each broker, by the names of `BrokerConfig` or RocketMQ's.
        namesrv_settings: settings of the name server, likewise.
        data: the directory of the data, which is kept; by default a temporary one.
        clock: ``offset`` goes on by itself and can be advanced; ``virtual`` only moves when it is
            advanced; ``system`` is the machine's.
        start_ms: the time at which the clock begins; by default the machine's.
        namesrv_port, broker_port: 0 lets the system choose; broker i listens on
            broker_port + i * broker_port_step, the members of its set member_port_step apart.
        grpc_port: of the first broker, for RocketMQ 5's SDKs; 0 lets the system choose, as for the
            others; -1 is for none at all.
        seed: the seed of the brokers' random choices.
        tls: name server and brokers speak nothing but TLS, with certificates of an authority that
            the cluster makes.
        seed_file: a YAML file with topics, groups and messages to begin with (docs/seed.md).

    Options that are paths take a `Path`, too.
    """

    brokers: Annotated[int, Meta(ge=1, le=BROKERS_MAX)] = 1
    replicas: Annotated[int, Meta(ge=1, le=REPLICAS_MAX)] = 1
    topics: dict[str, int | dict[str, Any]] = field(default_factory=dict)
    groups: dict[str, dict[str, Any]] | list[str] = field(default_factory=dict)
    broker_settings: dict[str, Any] = field(default_factory=dict)
    namesrv_settings: dict[str, Any] = field(default_factory=dict)
    data: str | None = None
    clock: str = "offset"
    start_ms: int | None = None
    namesrv_port: Port = 0
    broker_port: Port = 0
    broker_port_step: int = 1
    member_port_step: int = 100
    grpc_port: Annotated[int, Meta(ge=-1, le=65535)] = 0
    seed: int | None = None
    tls: bool = False
    seed_file: str | None = None

    def topic_configs(self) -> list[TopicConfig]:
        """Returns the settings of the topics as brokers hold them."""
        return [topic_config(name, wanted) for name, wanted in self.topics.items()]

    def group_configs(self) -> list[GroupConfig]:
        """Returns the settings of the groups as brokers hold them."""
        groups = self.groups
        if isinstance(groups, list):
            groups = {name: {} for name in groups}
        return [group_config(name, wanted) for name, wanted in groups.items()]


def cluster_settings(given: Mapping[str, Any], where: str = "LocalCluster") -> ClusterSettings:
    """Reads the options of a cluster, and checks all that can be checked before the start.

    Args:
        given: the options by name.
        where: the place that the options were given at, for errors.

    Raises:
        ConfigError: an option does not exist or does not fit; the text says which would.
    """
    fields = {
        name: os.fspath(value) if isinstance(value, os.PathLike) else value
        for name, value in given.items()
    }
    settings = _converted(ClusterSettings, fields, where, "option")
    if settings.clock not in CLOCKS:
        raise ConfigError(f"{where}: clock={settings.clock!r} must be one of {', '.join(CLOCKS)}")
    if settings.clock == "system" and settings.start_ms is not None:
        raise ConfigError(f"{where}: start_ms goes with clock='offset' or 'virtual', not 'system'")
    settings.topic_configs()
    settings.group_configs()
    namesrv_config(settings)
    broker_config(settings, 0, f"{LOCALHOST}:9876", "store")
    return settings


def topic_config(name: str, wanted: int | Mapping[str, Any]) -> TopicConfig:
    """Reads the settings of a topic from a number of queues, or from settings by name.

    Raises:
        ConfigError, IllegalNameError.
    """
    check_topic(name)
    if isinstance(wanted, int):
        wanted = {"queues": wanted}
    fields = dict(wanted)
    queues = fields.pop("queues", 4)
    if not isinstance(queues, int) or isinstance(queues, bool) or not 1 <= queues <= 65536:
        raise ConfigError(f"topic {name}: queues={queues!r} must be a number from 1 to 65536")
    fields = {"read_queue_nums": queues, "write_queue_nums": queues, **fields, "topic_name": name}
    return _converted(TopicConfig, fields, f"topic {name}", "setting", "queues")


def group_config(name: str, wanted: Mapping[str, Any]) -> GroupConfig:
    """Reads the settings of a group.

    Raises:
        ConfigError, IllegalNameError.
    """
    check_group(name)
    fields = {**wanted, "group_name": name}
    return _converted(GroupConfig, fields, f"group {name}", "setting")


def broker_name(index: int) -> str:
    """Returns the name of the broker with an index."""
    return f"broker-{chr(ord('a') + index)}"


def broker_config(
    settings: ClusterSettings,
    index: int,
    namesrv: str,
    directory: str,
    certificates: ClusterCertificates | None = None,
    number: int = 0,
) -> BrokerConfig:
    """Makes the settings of one broker.

    Args:
        settings: of the cluster.
        index: which of its brokers.
        namesrv: the address of the name server.
        directory: for the broker's data.
        certificates: with which it speaks TLS; None for none.
        number: which member of its broker set, counted from 0.

    Raises:
        ConfigError.
    """
    step = index * settings.broker_port_step + number * settings.member_port_step
    port = settings.broker_port and settings.broker_port + step
    grpc_port = settings.grpc_port if not index else min(settings.grpc_port, 0)
    fields = {
        **BROKER_DEFAULTS,
        **({} if settings.replicas == 1 else {**SET_DEFAULTS, "broker_id": number + 1}),
        "broker_name": broker_name(index),
        "listen_port": port,
        "grpc_server_port": grpc_port + number if grpc_port > 0 else grpc_port,
        "namesrv_addr": namesrv,
        "store_path_root_dir": directory,
        **({} if certificates is None else certificates.broker_settings),
        **settings.broker_settings,
    }
    return _converted(BrokerConfig, fields, "broker_settings", "setting")


def namesrv_config(
    settings: ClusterSettings,
    certificates: ClusterCertificates | None = None,
    arbiter_path: str | None = None,
) -> NamesrvConfig:
    """Makes the settings of the name server.

    Args:
        settings: of the cluster.
        certificates: with which it speaks TLS; None for none.
        arbiter_path: the file of the arbiter of broker sets; None without sets.

    Raises:
        ConfigError.
    """
    fields = {
        **NAMESRV_DEFAULTS,
        "arbiter_path": arbiter_path,
        "listen_port": settings.namesrv_port,
        "kv_config_path": _kv_config_path(settings),
        **({} if certificates is None else certificates.server_settings),
        **settings.namesrv_settings,
    }
    return _converted(NamesrvConfig, fields, "namesrv_settings", "setting")


def _kv_config_path(settings: ClusterSettings) -> str | None:
    """Returns the path of the name server's KV configuration, which lives as long as the data."""
    return settings.data and str(Path(settings.data) / "namesrv" / "kvConfig.json")


def _converted(
    cls: type[StructT], fields: dict[str, Any], where: str, kind: str, *further: str
) -> StructT:
    """Makes a struct from fields by their Python names or their names on the wire."""
    wire = dict(zip(cls.__struct_fields__, cls.__struct_encode_fields__, strict=True))
    known = {**wire, **{name: name for name in wire.values()}}
    for name in fields:
        if name not in known:
            near = difflib.get_close_matches(name, [*known, *further], 1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            names = ", ".join(sorted([*wire, *further]))
            raise ConfigError(f"{where}: no such {kind}: {name!r}{hint}; there are: {names}")
    try:
        return msgspec.convert({known[name]: value for name, value in fields.items()}, cls)
    except msgspec.ValidationError as e:
        raise ConfigError(f"{where}: the {kind} does not fit: {e}") from e
