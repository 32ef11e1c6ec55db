from __future__ import annotations

import pytest

from pocketmq.spark.session import COLLECTOR, _java_options


def test_the_jvm_gets_one_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _java_options().split()[1:] == [COLLECTOR]
    monkeypatch.setenv("JDK_JAVA_OPTIONS", "-Xss1m -XX:+UseSerialGC")
    assert _java_options().split()[1:] == []
