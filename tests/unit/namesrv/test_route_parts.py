from __future__ import annotations

import pytest
from support.namesrv.builders import NOW_MS, registration, topic_config

from pocketmq.namesrv import route_parts
from pocketmq.namesrv.route_parts import RouteParts
from pocketmq.namesrv.route_table import RouteTable


def test_parts_make_what_the_whole_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while there is room for few of them only."""
    monkeypatch.setattr(route_parts, "PARTS_MAX", 3)
    table = RouteTable()
    for number in range(5):
        topics = [topic_config(f"T{n}", queues=number + n) for n in range(4)]
        table.register(registration(f"broker-{number}", *topics, zone='a "zone"'), NOW_MS)
    parts = RouteParts(table)
    for topic in ("T0", "T3", "T0", "T1", "T2"):
        for quote_keys in (False, True):
            route = table.route(topic)
            assert route is not None
            encoded = parts.route(topic, lambda data: data, (), quote_keys=quote_keys)
            assert encoded == route.encode(quote_keys=quote_keys)
            assert len(parts._brokers) <= 3
            assert len(parts._queues) <= 3
    assert parts.route("unknown", lambda data: data, (), quote_keys=True) is None
