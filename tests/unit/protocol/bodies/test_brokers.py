from __future__ import annotations

from pocketmq.protocol.bodies.brokers import BrokerStats, HAStatus, StatsItem


def test_statistics_are_written_as_rocketmq_writes_them() -> None:
    stats = BrokerStats(stats_minute=StatsItem(sum=3, tps=0.5, avgpt=1.5))
    assert BrokerStats.decode(stats.encode()) == stats
    assert stats.encode().endswith(b'"statsMinute":{"avgpt":1.5,"sum":3,"tps":0.5}}')


def test_a_master_without_slaves() -> None:
    status = HAStatus.decode(
        b'{"haClientRuntimeInfo":{"maxOffset":0},"haConnectionInfo":[],"inSyncSlaveNums":0,'
        b'"master":true,"masterCommitLogMaxOffset":255}'
    )
    assert status.master
    assert status.master_commit_log_max_offset == 255
    assert HAStatus.decode(HAStatus().encode()) == HAStatus()
