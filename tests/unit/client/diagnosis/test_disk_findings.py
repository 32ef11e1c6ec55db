"""What the doctor says of disks, of what their brokers tell."""

from __future__ import annotations

import re

import pytest

from pocketmq.client.diagnosis.cluster_state import BrokerState, ClusterState
from pocketmq.client.diagnosis.disks import check_disks
from pocketmq.client.diagnosis.findings import Finding, Severity
from pocketmq.runtime.clock import SystemClock
from pocketmq.transport.pool import ConnectionPool

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
GIB = 1 << 30


async def of_broker(**figures: object) -> list[Finding]:
    told = {
        "runtime": "[ 0 days, 1 hours, 0 minutes, 0 seconds ]",
        "bootTimestamp": NOW_MS - HOUR_MS,
        "commitLogDiskRatio": 0.5,
        "commitLogDirCapacity": "Total : 100.0 GiB, Free : 50.0 GiB.",
        "diskGrowthTimeMs": HOUR_MS,
        "diskGrowthSize": 3 * GIB,
        "diskGrowthTopic": "Clicks",
        "diskGrowthTopicSize": 2 * GIB,
    } | figures
    broker = BrokerState("c", "broker-a", 0, "127.0.0.1:10911")
    broker.figures = {name: str(value) for name, value in told.items()}
    clock = SystemClock()
    return await check_disks(ClusterState(ConnectionPool(clock), clock, [], [broker]))


async def test_a_disk_that_will_be_full_soon() -> None:
    (finding,) = await of_broker(
        diskCleanTimestamp=NOW_MS + 14 * HOUR_MS, diskFullTimestamp=NOW_MS + 16 * HOUR_MS
    )
    assert finding.severity is Severity.WARNING
    assert finding.seen.startswith(
        "its disk holds 3.0 GiB more than 60 min ago, in which 2.0 GiB of Clicks were stored; "
        "if it goes on like this, the oldest messages are removed before their time from "
    )
    assert re.search(r"from \d{4}-\d\d-\d\d \d\d:\d\d \(in 14 h\) on", finding.seen)
    assert "sends are refused, unless enough is removed, from" in finding.seen
    assert "(in 16 h)" in finding.seen
    assert "pocketmq topic update Clicks --attribute +reserve.time=HOURS" in finding.remedy
    assert "fileReservedTime=HOURS -b 127.0.0.1:10911" in finding.remedy


@pytest.mark.parametrize(("days", "severity"), [(6, Severity.WARNING), (8, Severity.NOTE)])
async def test_what_is_far_away_is_a_note(days: int, severity: Severity) -> None:
    (finding,) = await of_broker(diskFullTimestamp=NOW_MS + days * 24 * HOUR_MS)
    assert finding.severity is severity
    assert f"sends are refused from {finding.seen.partition('refused from ')[2]}" in finding.seen
    assert f"(in {days} days)" in finding.seen
    assert "before their time" not in finding.seen


async def test_topics_of_the_broker_are_not_to_be_changed() -> None:
    (finding,) = await of_broker(
        diskGrowthTopic="SCHEDULE_TOPIC_XXXX", diskFullTimestamp=NOW_MS + HOUR_MS
    )
    assert "of SCHEDULE_TOPIC_XXXX were stored" in finding.seen
    assert finding.remedy.startswith("shorten fileReservedTime")


async def test_growth_without_messages_names_no_topic() -> None:
    (finding,) = await of_broker(diskGrowthTopic="", diskFullTimestamp=NOW_MS + HOUR_MS)
    assert finding.seen.startswith("its disk holds 3.0 GiB more than 60 min ago; if it goes on")
    assert finding.remedy.startswith("shorten fileReservedTime")


async def test_nothing_is_foretold_of_most_disks() -> None:
    assert await of_broker() == []


async def test_a_disk_that_is_full_now_is_only_that() -> None:
    (finding,) = await of_broker(refusal="it is full", diskFullTimestamp=NOW_MS + HOUR_MS)
    assert finding.severity is Severity.ERROR
