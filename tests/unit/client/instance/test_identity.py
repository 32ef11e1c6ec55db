from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from random import Random

from pocketmq.client.instance.identity import UniqueKeys, client_id, lasting_id, local_address
from pocketmq.testing.clock import VirtualClock


def test_client_ids_differ() -> None:
    random = Random(1)
    first, second = client_id(random), client_id(random)
    assert first != second
    assert first.startswith(f"{local_address()}@{os.getpid()}#")


def test_a_named_instance() -> None:
    assert client_id(Random(1), "mine").endswith("@mine")


def test_keys_are_unique_also_between_instances(clock: VirtualClock) -> None:
    makers = [UniqueKeys(clock.now_ms, Random(i)) for i in range(3)]
    keys = [maker.next() for maker in makers for _ in range(5_000)]
    assert len(set(keys)) == len(keys)
    assert {len(key) for key in keys} == {32}


def test_time_in_keys_counts_from_the_start_of_the_month() -> None:
    now = [datetime(2023, 11, 14, tzinfo=UTC)]
    keys = UniqueKeys(lambda: int(now[0].timestamp() * 1000), Random(1))
    for _ in range(100 * 24):
        start = now[0].replace(day=1, hour=0)
        expected_ms = (now[0] - start) // timedelta(milliseconds=1)
        assert int(keys.next()[20:28], 16) == expected_ms
        now[0] += timedelta(hours=1)


def test_a_lasting_id_is_the_same_after_a_restart() -> None:
    assert lasting_id() == f"{local_address()}@DEFAULT"
    assert lasting_id("mine") == f"{local_address()}@mine"
