from __future__ import annotations

from typing import Any

import pytest

from pocketmq.client import Producer, PullConsumer, PushConsumer
from pocketmq.client.instance.instance import ClientInstance
from pocketmq.client.settings import (
    InstanceSettings,
    ProducerSettings,
    PullConsumerSettings,
    PushSettings,
    take_settings,
)
from pocketmq.protocol.errors import ConfigError, IllegalNameError

NAMESRV = "127.0.0.1:9876"


def test_defaults_are_rocketmqs() -> None:
    p, c, i = ProducerSettings(), PushSettings(), InstanceSettings()
    assert (p.send_timeout_ms, p.retry_times_when_send_failed) == (3_000, 2)
    assert p.retry_times_when_send_async_failed == 2
    assert (p.compress_body_over_size, p.compress_level) == (4_096, 5)
    assert p.max_message_size == 4 << 20
    assert not p.send_latency_fault_enable
    assert not p.retry_another_broker_when_not_store_ok
    assert (i.poll_namesrv_interval_ms, i.heartbeat_interval_ms) == (30_000, 30_000)
    assert (i.default_topic_queue_nums, i.create_topic_key) == (4, "TBW102")
    assert (c.pull_batch_size, c.consume_message_batch_max_size) == (32, 1)
    assert (c.pull_threshold_for_queue, c.consume_concurrently_max_span) == (1_000, 2_000)
    assert c.pull_threshold_size_for_queue == 100 << 20
    assert (c.rebalance_interval_ms, c.persist_interval_ms) == (20_000, 5_000)
    assert c.consume_from_where == "CONSUME_FROM_LAST_OFFSET"


def test_settings_of_several_owners_in_one_call() -> None:
    given = {"send_timeout_ms": 5, "call_timeout_ms": 6}
    own, rest = take_settings(ProducerSettings, given, InstanceSettings)
    assert own.send_timeout_ms == 5
    assert rest == {"call_timeout_ms": 6}


def test_an_unknown_setting_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'send_timeout_ms'"):
        Producer("g", NAMESRV, send_timeout=1)
    with pytest.raises(ConfigError, match="did you mean 'concurrency'"):
        PushConsumer("g", NAMESRV, listener=print, concurency=1)
    with pytest.raises(ConfigError, match="heartbeat_interval_ms"):
        PullConsumer("g", NAMESRV, heartbeat=1)


def test_a_setting_of_the_wrong_type_is_refused() -> None:
    with pytest.raises(ConfigError, match="send_timeout_ms"):
        Producer("g", NAMESRV, send_timeout_ms="soon")


def test_a_shared_instance_brings_its_own_settings() -> None:
    instance = ClientInstance(NAMESRV)
    for settings in ({"namesrv": NAMESRV}, {"call_timeout_ms": 1}):
        with pytest.raises(ConfigError, match="shared instance"):
            Producer("g", instance=instance, **settings)


@pytest.mark.parametrize("group", ["", "a b", "x" * 121, "ä"])
def test_group_names_are_checked(group: str) -> None:
    with pytest.raises(IllegalNameError):
        Producer(group, NAMESRV)
    with pytest.raises(IllegalNameError):
        PushConsumer(group, NAMESRV, listener=print)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"concurrency": 0}, "concurrency=0 does not fit: expected is int >= 1"),
        ({"concurrency": 40_000}, "expected is int <= 32767"),
        ({"concurrency": "5"}, "concurrency='5' does not fit: expected is int, got str"),
        ({"consume_message_batch_max_size": 0}, "expected is int >= 1"),
        ({"max_reconsume_times": -2}, "expected is int >= -1"),
        ({"suspend_current_queue_time_ms": 5}, "expected is int >= 10"),
        ({"consume_timeout_ms": -1}, "expected is int >= 0"),
        ({"consume_timestamp_ms": -1}, "expected is int >= 0"),
        ({"pull_batch_size": 0}, "pull_batch_size=0"),
        ({"pull_retry_ms": 0}, "pull_retry_ms=0"),
        ({"persist_interval_ms": 0}, "persist_interval_ms=0"),
        ({"rebalance_interval_ms": 0}, "rebalance_interval_ms=0"),
        ({"heartbeat_interval_ms": 0}, "heartbeat_interval_ms=0"),
        ({"poll_namesrv_interval_ms": -1}, "poll_namesrv_interval_ms=-1"),
        ({"pull_threshold_for_queue": 0}, "pull_threshold_for_queue=0"),
        ({"consume_from_where": "CONSUME_FROM_HERE"}, "is none of CONSUME_FROM_LAST_OFFSET"),
        ({"message_model": "ALL"}, "is none of CLUSTERING, BROADCASTING"),
        ({"listener": 5}, "listener=5 is no function"),
    ],
    ids=str,
)
def test_consumer_settings_that_cannot_work(settings: dict[str, Any], expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        PushConsumer("g", NAMESRV, **{"listener": print, **settings})


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"send_timeout_ms": 0}, "send_timeout_ms=0"),
        ({"retry_times_when_send_failed": -1}, "retry_times_when_send_failed=-1"),
        ({"compress_level": 10}, "expected is int <= 9"),
    ],
    ids=str,
)
def test_producer_settings_that_cannot_work(settings: dict[str, Any], expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        Producer("g", NAMESRV, **settings)


def test_pull_settings_have_defaults() -> None:
    assert PullConsumerSettings().pull_timeout_ms == 10_000
