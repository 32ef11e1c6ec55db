"""The options of a cluster: checked before anything starts."""

from __future__ import annotations

from typing import Any

import pytest

from pocketmq.protocol.errors import ConfigError, IllegalNameError
from pocketmq.testing.settings import (
    broker_config,
    cluster_settings,
    group_config,
    namesrv_config,
    topic_config,
)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"broker": 2}, r"no such option: 'broker' \(did you mean 'brokers'\?\); there are: "),
        ({"brokers": 0}, "the option does not fit: .*brokers"),
        ({"brokers": 27}, "does not fit"),
        ({"clock": "sundial"}, "clock='sundial' must be one of offset, virtual, system"),
        ({"clock": "system", "start_ms": 1}, "start_ms goes with"),
        ({"topics": {"Orders": 0}}, "topic Orders: queues=0 must be a number from 1 to 65536"),
        ({"topics": {"Orders": {"queue": 3}}}, "no such setting: 'queue'.*did you mean 'queues'"),
        ({"groups": {"g": {"retryTimes": 3}}}, "group g: no such setting: 'retryTimes'"),
        ({"broker_settings": {"flushDisk": "x"}}, "no such setting: 'flushDisk'.*flushDiskType"),
        ({"broker_settings": {"flushDiskType": "NEVER"}}, "must be ASYNC_FLUSH or SYNC_FLUSH"),
        ({"namesrv_settings": {"port": 1}}, "namesrv_settings: no such setting: 'port'"),
    ],
)
def test_a_mistake_is_named_with_what_would_be_right(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        cluster_settings(options)


def test_names_are_checked() -> None:
    with pytest.raises(IllegalNameError, match="Or ders"):
        cluster_settings({"topics": {"Or ders": 1}})


def test_settings_have_this_projects_names_or_rocketmqs() -> None:
    given = {"broker_settings": {"flush_disk_type": "SYNC_FLUSH", "maxMessageSize": 1000}}
    config = broker_config(cluster_settings(given), 2, "127.0.0.1:1", "here")
    assert (config.flush_disk_type, config.max_message_size) == ("SYNC_FLUSH", 1000)
    assert (config.broker_name, config.store_path_root_dir) == ("broker-c", "here")
    assert (config.bind_address, config.listen_port) == ("127.0.0.1", 0)


def test_ports_are_next_to_each_other_or_the_systems() -> None:
    settings = cluster_settings({"broker_port": 7000, "namesrv_port": 6000})
    assert broker_config(settings, 2, "", "d").listen_port == 7002
    assert namesrv_config(settings).listen_port == 6000


def test_topics_and_groups() -> None:
    assert topic_config("Orders", 3).write_queue_nums == 3
    assert topic_config("Orders", {"queues": 3, "order": True, "readQueueNums": 4}).order
    assert topic_config("Orders", {}).read_queue_nums == 4
    assert group_config("billing", {"retryMaxTimes": 2}).retry_max_times == 2
    settings = cluster_settings({"groups": ["a", "b"], "topics": {"Orders": 1}})
    assert [g.group_name for g in settings.group_configs()] == ["a", "b"]
    assert [t.topic_name for t in settings.topic_configs()] == ["Orders"]
