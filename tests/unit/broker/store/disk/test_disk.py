from __future__ import annotations

from pathlib import Path

import pytest

from pocketmq.broker.store.disk.disk import MIB, DiskGuard, DiskUse, disk_use

FREE_MIN = 100 * MIB


class Disk:
    def __init__(self, used: int, free: int) -> None:
        self.use = DiskUse((used + free) * MIB, used * MIB, free * MIB)

    def measure(self, _: Path) -> DiskUse:
        return self.use


def guard_of(disk: Disk) -> DiskGuard:
    return DiskGuard(Path("/data"), 90.0, 85.0, FREE_MIN, disk.measure)


@pytest.mark.parametrize(
    ("used", "free", "refuses", "cleans"),
    [
        (100, 900, False, False),
        (840, 160, False, False),
        (860, 99, False, True),
        (860, 140, False, False),  # over the share, but there is room
        (950, 50, True, True),
        (9500, 500, False, False),
        (1000, 0, True, True),
        (0, 0, False, False),
    ],
)
def test_a_share_counts_only_when_room_is_short(
    used: int, free: int, refuses: bool, cleans: bool
) -> None:
    guard = guard_of(Disk(used, free))
    assert (guard.full_reason is not None) == refuses
    assert guard.wants_cleaning == cleans


def test_the_refusal_names_path_share_limit_and_ways_out() -> None:
    reason = guard_of(Disk(950, 50)).full_reason
    assert reason is not None
    for words in (
        "/data",
        "95.0 % full",
        "diskSpaceWarningLevelRatio=90",
        "50 MiB free",
        "diskSpaceFreeMin=100 MiB",
        "fileReservedTime",
    ):
        assert words in reason


def test_a_write_without_room_counts_until_the_next_look() -> None:
    disk = Disk(1, 1000)
    guard = guard_of(disk)
    guard.refuse("No space left on device")
    assert guard.full_reason == "no room left on the disk of /data: No space left on device"
    guard.check()
    assert guard.full_reason is None


def test_the_real_disk_is_measured(tmp_path: Path) -> None:
    use = disk_use(tmp_path)
    assert 0 < use.used_percent < 100
    assert use.total >= use.used + use.free
