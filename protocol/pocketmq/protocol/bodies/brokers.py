"""What a broker tells of itself."""

from __future__ import annotations

from msgspec import field

from pocketmq.protocol.bodies import Body


class StatsItem(Body, kw_only=True):
    """A statistic in one window: how much, how much a second, how much a request."""

    sum: int = 0
    tps: float = 0.0
    avgpt: float = 0.0


class BrokerStats(Body, kw_only=True):
    """A statistic in three windows (`body/BrokerStatsData`)."""

    stats_minute: StatsItem = field(default_factory=StatsItem)
    stats_hour: StatsItem = field(default_factory=StatsItem)
    stats_day: StatsItem = field(default_factory=StatsItem)


class HAClient(Body, kw_only=True):
    """How a slave reads from its master; a master says not at all (`HAClientRuntimeInfo`)."""

    transferred_byte_in_second: int = 0
    max_offset: int = 0
    last_read_timestamp: int = 0
    last_write_timestamp: int = 0
    master_flush_offset: int = 0


class HAStatus(Body, kw_only=True):
    """How replication fares (`body/HARuntimeInfo`)."""

    master: bool = True
    master_commit_log_max_offset: int = 0
    in_sync_slave_nums: int = 0
    ha_connection_info: list[dict[str, object]] = field(default_factory=list)
    ha_client_runtime_info: HAClient = field(default_factory=HAClient)
