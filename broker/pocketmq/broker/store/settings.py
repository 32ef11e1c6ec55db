"""The settings that the store depends on."""

from __future__ import annotations

import msgspec

from pocketmq.broker.config.config import SYNC_FLUSH, BrokerConfig


class StoreSettings(msgspec.Struct, frozen=True):
    """Sizes, time limits and disk limits of a store.

    Attributes:
        segment_size: bytes of records in one file before the next is created.
        flush_sync: answer only when the data is on the disk (SYNC_FLUSH).
        flush_timeout_ms: how long that may take.
        open_files_max: handles kept open.
        checks_all_logs: whether a start after a kill looks at the ends of all logs, as members of
            broker sets compare them; else the store serves before it has.
        disk_warning_percent, disk_clean_percent, disk_free_min: see `disk.DiskGuard`.
    """

    segment_size: int = 64 * 1024 * 1024
    flush_sync: bool = False
    flush_timeout_ms: int = 5000
    open_files_max: int = 1024
    checks_all_logs: bool = False
    disk_warning_percent: float = 90.0
    disk_clean_percent: float = 85.0
    disk_free_min: int = 5 * 1024 * 1024 * 1024

    @classmethod
    def of(cls, config: BrokerConfig) -> StoreSettings:
        """Takes the store's settings from those of a broker."""
        return cls(
            segment_size=config.segment_size,
            flush_sync=config.flush_disk_type == SYNC_FLUSH,
            flush_timeout_ms=config.sync_flush_timeout,
            open_files_max=config.open_files_max,
            checks_all_logs=config.enable_controller_mode,
            disk_warning_percent=config.disk_space_warning_level_ratio,
            disk_clean_percent=config.disk_space_clean_forcibly_ratio,
            disk_free_min=config.disk_space_free_min,
        )
