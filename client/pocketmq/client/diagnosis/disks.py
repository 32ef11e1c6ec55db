"""Warns of full disks before brokers refuse sends, and foretells when they will be full."""

from __future__ import annotations

import re
from datetime import datetime

from pocketmq.client.diagnosis.cluster_state import BrokerState, ClusterState
from pocketmq.client.diagnosis.findings import Finding, Severity
from pocketmq.protocol.names.names import is_system_topic

DISKS = "disks"

NEAR_PERCENT = 5.0
"""Percent below the limit of refusing sends at which a warning begins."""

APACHE_WARNING_PERCENT = 90.0
"""The limit at which Apache's brokers refuse sends: a property of the JVM that they do not tell."""

SOON_S = 7 * 86_400
"""What is foretold for later is only a note."""

_FREE = re.compile(r"Free : ([\d.]+) (?:([KMGTPE])i)?B")
_UNITS = " KMGTPE"


async def check_disks(state: ClusterState) -> list[Finding]:
    """Finds brokers whose disk is full or nearly full, or will be if it fills as it does."""
    found = []
    for broker in state.brokers:
        found += _of_broker(broker) or _foretold(broker)
    return found


def _foretold(broker: BrokerState) -> list[Finding]:
    """Words what a broker foretells of its disk; Apache's foretell nothing."""
    clean_ms = int(broker.figures.get("diskCleanTimestamp", 0))
    full_ms = int(broker.figures.get("diskFullTimestamp", 0))
    now_ms, topic = broker.now_ms, broker.figures.get("diskGrowthTopic", "")
    if now_ms is None or not (clean_ms or full_ms):
        return []
    grown = int(broker.figures["diskGrowthSize"])
    measured = _length(int(broker.figures["diskGrowthTimeMs"]) / 1000)
    seen = f"its disk holds {_readable(grown)} more than {measured} ago"
    if topic:
        stored = _readable(int(broker.figures["diskGrowthTopicSize"]))
        seen += f", in which {stored} of {topic} were stored"
    parts = []
    if clean_ms:
        parts.append(
            f"the oldest messages are removed before their time from {_when(clean_ms, now_ms)} on "
            f"(diskSpaceCleanForciblyRatio)"
        )
    if full_ms:
        unless = ", unless enough is removed," if 0 < clean_ms < full_ms else ""
        parts.append(
            f"sends are refused{unless} from {_when(full_ms, now_ms)} on "
            f"(diskSpaceWarningLevelRatio)"
        )
    first_s = (min(filter(None, (clean_ms, full_ms))) - now_ms) / 1000
    of_topic = (
        f"keep less of the topic (pocketmq topic update {topic} --attribute +reserve.time=HOURS), "
        if topic and not is_system_topic(topic)  # whose settings are the broker's
        else ""
    )
    return [
        Finding(
            DISKS,
            Severity.WARNING if first_s <= SOON_S else Severity.NOTE,
            str(broker),
            f"{seen}; if it goes on like this, {', and '.join(parts)}",
            f"{of_topic}shorten fileReservedTime (pocketmq broker config set "
            f"fileReservedTime=HOURS -b {broker.address}), or move the data to a larger disk",
        )
    ]


def _when(time_ms: int, now_ms: int) -> str:
    time = datetime.fromtimestamp(time_ms / 1000).astimezone()
    return f"{time:%Y-%m-%d %H:%M} (in {_length((time_ms - now_ms) / 1000)})"


def _length(seconds: float) -> str:
    if seconds < 2 * 3600:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 2 * 86_400 else f"{seconds / 86_400:.0f} days"


def _readable(size: float) -> str:
    exponent = 0
    while size >= 1024 and exponent < len(_UNITS) - 1:
        size, exponent = size / 1024, exponent + 1
    return f"{size:.1f} {_UNITS[exponent]}iB" if exponent else f"{size:.0f} B"


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
