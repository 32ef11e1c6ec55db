"""What each part of a broker needs of the broker's configuration."""

from __future__ import annotations

from pocketmq.broker.appending.write_backlog import BacklogSettings
from pocketmq.broker.config.config import SYNC_FLUSH, BrokerConfig
from pocketmq.broker.delay.timers import TimerSettings
from pocketmq.broker.handlers.consuming.pull import PullSettings
from pocketmq.broker.handlers.sending.recalls import RecallSettings
from pocketmq.broker.handlers.sending.replies import ReplySettings
from pocketmq.broker.handlers.sending.send_checks import SendSettings
from pocketmq.broker.handlers.sending.transactions import TransactionSettings
from pocketmq.broker.store.store import StoreSettings
from pocketmq.broker.transactions.check_back import CheckSettings
from pocketmq.protocol import flags


def store_settings(config: BrokerConfig) -> StoreSettings:
    """How the store keeps its data."""
    return StoreSettings(
        segment_size=config.segment_size,
        flush_sync=config.flush_disk_type == SYNC_FLUSH,
        flush_timeout_ms=config.sync_flush_timeout,
        open_files_max=config.open_files_max,
        disk_warning_percent=config.disk_space_warning_level_ratio,
        disk_clean_percent=config.disk_space_clean_forcibly_ratio,
        disk_free_min=config.disk_space_free_min,
    )


def backlog_settings(config: BrokerConfig) -> BacklogSettings:
    """When the broker is busy."""
    return BacklogSettings(
        is_enabled=config.broker_fast_failure_enable,
        turn_wait_ms=config.wait_time_mills_in_send_queue,
        flush_wait_ms=config.os_page_cache_busy_time_out_mills,
        size_max=config.flush_backlog_size_max,
    )


def reserved_ms(config: BrokerConfig) -> int:
    """How long messages are kept."""
    return config.file_reserved_time * 3_600_000


def timer_settings(config: BrokerConfig) -> TimerSettings:
    """How timers are treated."""
    return TimerSettings(
        is_enabled=config.timer_wheel_enable,
        precision_ms=config.timer_precision_ms,
        delay_max_ms=config.timer_max_delay_sec * 1000,
        congestion_max=config.timer_congest_num_each_slot,
    )


def send_settings(config: BrokerConfig, store_host: bytes) -> SendSettings:
    """What sends depend on."""
    return SendSettings(
        cluster=config.broker_cluster_name,
        broker_name=config.broker_name,
        region=config.region_id,
        store_host=store_host,
        body_size_max=config.max_message_size,
        permission=config.broker_permission,
        queue_nums_max=config.default_topic_queue_nums,
        trace_on=config.trace_on,
        rejects_transactions=config.reject_transaction_message,
    )


def pull_settings(config: BrokerConfig) -> PullSettings:
    """The limits of pulls."""
    return PullSettings(
        permission=config.broker_permission,
        count_max=config.max_transfer_count_on_message_in_memory,
        size_max=config.max_transfer_bytes_on_message_in_memory,
        bulk_size_max=config.max_transfer_bytes_on_bulk,
        long_polling=config.long_polling_enable,
        short_polling_ms=config.short_polling_time_mills,
        sql_enabled=config.enable_property_filter,
    )


def transaction_settings(config: BrokerConfig) -> TransactionSettings:
    """What the ends of transactions depend on."""
    return TransactionSettings(
        is_slave=config.broker_id != 0, timeout_ms=config.transaction_time_out
    )


def check_settings(config: BrokerConfig, store_host: bytes) -> CheckSettings:
    """When producers are asked about half messages."""
    return CheckSettings(
        broker_name=config.broker_name,
        store_host=store_host,
        timeout_ms=config.transaction_time_out,
        check_max=config.transaction_check_max,
        reserved_ms=reserved_ms(config),
    )


def recall_settings(config: BrokerConfig) -> RecallSettings:
    """What recalls depend on."""
    return RecallSettings(
        broker_name=config.broker_name,
        region=config.region_id,
        is_enabled=config.recall_message_enable,
        is_writable=bool(config.broker_permission & flags.PERM_WRITE)
        or config.allow_recall_when_broker_not_writeable,
        delay_max_ms=config.timer_max_delay_sec * 1000,
    )


def reply_settings(config: BrokerConfig, address: str) -> ReplySettings:
    """What replies depend on."""
    return ReplySettings(
        address=address,
        region=config.region_id,
        trace_on=config.trace_on,
        body_size_max=config.max_message_size,
        are_stored=config.store_reply_message_enable,
    )
