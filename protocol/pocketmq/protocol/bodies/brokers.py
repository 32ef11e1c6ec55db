"""Bodies with a broker's statistics and replication state."""

from __future__ import annotations

from msgspec import field

from pocketmq.protocol.bodies import Body

RELEASE_FIGURE = "pocketmqVersion"
"""The figure (28) that names a broker's release of PocketMQ; those before 0.2.0 have none."""


class StatsItem(Body, kw_only=True):
    """A statistic in one window: its sum, its rate a second and its mean per request."""

    sum: int = 0
    tps: float = 0.0
    avgpt: float = 0.0


class BrokerStats(Body, kw_only=True):
    """A statistic of the last minute, hour and day (`body/BrokerStatsData`)."""

    stats_minute: StatsItem = field(default_factory=StatsItem)
    stats_hour: StatsItem = field(default_factory=StatsItem)
    stats_day: StatsItem = field(default_factory=StatsItem)


class HAClient(Body, kw_only=True):
    """How a slave reads from its master; zeros at a master (`HAClientRuntimeInfo`)."""

    master_addr: str | None = None
    transferred_byte_in_second: int = 0
    max_offset: int = 0
    last_read_timestamp: int = 0
    last_write_timestamp: int = 0
    master_flush_offset: int = 0


class HAConnection(Body, kw_only=True):
    """How a slave follows, as its master sees it (`HAConnectionRuntimeInfo`)."""

    addr: str
    slave_ack_offset: int
    diff: int
    in_sync: bool
    transferred_byte_in_second: int
    transfer_from_where: int


class HAStatus(Body, kw_only=True):
    """The state of a broker's replication (`body/HARuntimeInfo`)."""

    master: bool = True
    master_commit_log_max_offset: int = 0
    in_sync_slave_nums: int = 0
    ha_connection_info: list[HAConnection] = field(default_factory=list)
    ha_client_runtime_info: HAClient = field(default_factory=HAClient)


class SettingDetail(Body, kw_only=True):
    """A setting of a broker, and where its value is from (PocketMQ's own).

    Attributes:
        key: its name.
        value: in force, as properties hold it; None if it is unset.
        default: what it is if nobody sets it; of Apache's brokers None.
        configured: what the configuration says, or else the default; of Apache's brokers None.
        is_live: whether it can be changed while the broker runs; of Apache's brokers None.
        wanted: the value after the changes that were asked about; None without a change of it.
    """

    key: str
    value: str | None = None
    default: str | None = None
    configured: str | None = None
    is_live: bool | None = None
    wanted: str | None = None


class SettingDetails(Body, kw_only=True):
    """All settings of a broker, by name."""

    settings: list[SettingDetail] = field(default_factory=list)
