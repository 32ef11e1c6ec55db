"""Warns of full disks before brokers refuse sends."""

from __future__ import annotations

import re

from pocketmq.client.diagnosis.cluster_state import BrokerState, ClusterState
from pocketmq.client.diagnosis.findings import Finding, Severity

DISKS = "disks"

NEAR_PERCENT = 5.0
"""Percent below the limit of refusing sends at which a warning begins."""

APACHE_WARNING_PERCENT = 90.0
"""The limit at which Apache's brokers refuse sends: a property of the JVM that they do not tell."""

_FREE = re.compile(r"Free : ([\d.]+) (?:([KMGTPE])i)?B")
_UNITS = " KMGTPE"


async def check_disks(state: ClusterState) -> list[Finding]:
    """Finds brokers whose disk is full or nearly full."""
    return [finding for broker in state.brokers for finding in _of_broker(broker)]


def _of_broker(broker: BrokerState) -> list[Finding]:
    remedy = (
        "free some space, shorten fileReservedTime (pocketmq broker config set "
        f"fileReservedTime=HOURS -b {broker.address}), or move the data to a larger disk"
    )
    if refusal := broker.figures.get("refusal"):
        return [Finding(DISKS, Severity.ERROR, str(broker), f"it refuses sends: {refusal}", remedy)]
    used = _used_percent(broker)
    limit = float(broker.settings.get("diskSpaceWarningLevelRatio", APACHE_WARNING_PERCENT))
    if used < limit - NEAR_PERCENT or _free(broker) >= _free_needed(broker):
        return []
    seen = f"its disk is {used:.1f} % full, and sends are refused from {limit:g} % on"
    severity = Severity.ERROR if used >= limit else Severity.WARNING
    return [Finding(DISKS, severity, str(broker), seen, remedy)]


def _used_percent(broker: BrokerState) -> float:
    return max(
        (
            float(value) * 100
            for figure, value in broker.figures.items()
            if figure == "consumeQueueDiskRatio" or figure.startswith("commitLogDiskRatio")
        ),
        default=0.0,
    )


def _free(broker: BrokerState) -> float:
    """Returns the free bytes; 0 if the broker does not say."""
    found = _FREE.search(broker.figures.get("commitLogDirCapacity", ""))
    if found is None:
        return 0.0
    number: str = found.group(1)
    return float(number) * 1024.0 ** _UNITS.index(found.group(2) or " ")


def _free_needed(broker: BrokerState) -> float:
    """Returns the free bytes above which no percentage counts (diskSpaceFreeMin); Apache's: 0."""
    return float(broker.settings.get("diskSpaceFreeMin", "inf"))
