"""Checks the clocks of brokers against the clock of the caller."""

from __future__ import annotations

from pocketmq.client.diagnosis.cluster_state import BrokerState, ClusterState
from pocketmq.client.diagnosis.findings import Finding, Severity

CLOCKS = "clocks"

SKEW_MAX_MS = 5_000
"""Skew that users notice: delay levels begin at 1 s, and lag in time is shown in seconds."""

_RESOLUTION_MS = 1_000
"""The resolution of a broker's age, which it tells in whole seconds."""


async def check_clocks(state: ClusterState) -> list[Finding]:
    """Finds brokers whose clock differs from the caller's.

    Times in messages come from clients, delays and retention from brokers. Name servers are left
    out: they stamp nothing that others see.
    """
    return [
        Finding(
            CLOCKS,
            Severity.WARNING,
            str(broker),
            f"its clock is {_length(abs(skew))} {'ahead of' if skew > 0 else 'behind'} the one "
            f"here: timers come {'early' if skew > 0 else 'late'}, and lag in time and resets to a "
            f"time are wrong by as much",
            "keep both machines' clocks by NTP (chrony, systemd-timesyncd). A virtual machine that "
            "was suspended may need its clock set once",
        )
        for broker in state.brokers
        if abs(skew := skew_ms(broker)) > SKEW_MAX_MS
    ]


def skew_ms(broker: BrokerState) -> int:
    """Returns how far a broker's clock is ahead at least; 0 if it may be right or is unknown."""
    now_ms = broker.now_ms
    if now_ms is None:
        return 0
    if now_ms > broker.answered_ms:
        return now_ms - broker.answered_ms
    return min(now_ms + _RESOLUTION_MS - broker.asked_ms, 0)


def _length(milliseconds: int) -> str:
    seconds = milliseconds / 1000
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
