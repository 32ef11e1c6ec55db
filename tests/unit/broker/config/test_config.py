from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from pocketmq.broker.config.config import BrokerConfig
from pocketmq.protocol.errors import ConfigError
from pocketmq.runtime.settings import load_settings


def test_the_defaults_are_rocketmq_s() -> None:
    config = BrokerConfig()
    assert (config.listen_port, config.broker_cluster_name) == (10911, "DefaultCluster")
    assert (config.flush_disk_type, config.file_reserved_time) == ("ASYNC_FLUSH", 72)
    assert (config.max_message_size, config.register_name_server_period) == (4 << 20, 30_000)
    assert (config.default_topic_queue_nums, config.auto_create_topic_enable) == (8, True)


def test_keys_are_rocketmq_s(tmp_path: Path) -> None:
    path = tmp_path / "broker.yaml"
    path.write_text("brokerName: b\nbrokerIP1: 10.0.0.1\nautoCreateTopicEnable: false\n")
    config = load_settings(path, BrokerConfig)
    assert (config.broker_name, config.broker_ip1) == ("b", "10.0.0.1")
    assert config.auto_create_topic_enable is False


def test_an_unknown_key_names_the_nearest_right_one(tmp_path: Path) -> None:
    path = tmp_path / "broker.yaml"
    path.write_text("autoCreateTopicEnabled: false\n")
    with pytest.raises(ConfigError, match="autoCreateTopicEnable"):
        load_settings(path, BrokerConfig)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("flush_disk_type", "SOMETIMES"),
        ("broker_name", ""),
        ("broker_cluster_name", ""),
        ("listen_port", 65536),
        ("listen_port", -1),
        ("segment_size", 1000),
        ("max_message_size", 16 << 20),
        ("file_reserved_time", 0),
        ("broker_permission", 8),
        ("register_name_server_period", 9_999),
        ("disk_space_warning_level_ratio", 0),
        ("clean_resource_interval", 0),
        ("sync_flush_timeout", 0),
        ("max_held_pulls", -1),
        ("connections_max", 0),
        ("unsent_size_max", 1000),
        ("wait_time_mills_in_send_queue", 0),
        ("os_page_cache_busy_time_out_mills", 0),
        ("flush_backlog_size_max", 0),
        ("slow_reader_timeout", 1),
        ("unread_size_max", 1000),
        ("timer_precision_ms", 300),
        ("timer_max_delay_sec", 0),
        ("timer_congest_num_each_slot", 0),
    ],
)
def test_a_value_out_of_its_range_names_its_key(key: str, value: Any) -> None:
    name = dict(
        zip(BrokerConfig.__struct_fields__, BrokerConfig.__struct_encode_fields__, strict=True)
    )
    with pytest.raises(ConfigError) as caught:
        BrokerConfig(**{key: value})
    assert name[key] in str(caught.value)


def test_a_value_of_the_wrong_type_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="listenPort"):
        msgspec.json.decode(b'{"listenPort": "many"}', type=BrokerConfig)
