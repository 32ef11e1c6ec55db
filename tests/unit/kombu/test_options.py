"""The transport options, and the URL of the broker."""

from __future__ import annotations

import pytest

from pocketmq.kombu.options import read_address, read_options
from pocketmq.protocol.errors import ConfigError
from pocketmq.protocol.signing import Credentials


def test_own_options_are_read_and_those_of_kombu_left_alone() -> None:
    options = read_options({"invisible_ms": 5_000, "max_retries": 3, "priority_steps": [0, 5]})
    assert (options.invisible_ms, options.priority_steps) == (5_000, (0, 5))


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"invisible_msec": 1}, "did you mean 'invisible_ms'"),
        ({"invisible_ms": 1}, "invisible_ms=1 does not fit"),
        ({"priority_steps": []}, "priority_steps"),
    ],
)
def test_bad_options_are_refused(given: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        read_options(given)


@pytest.mark.parametrize(
    ("url", "namesrv", "settings"),
    [
        ("pocketmq://a:1,b", ["a:1", "b:9876"], {}),
        ("a", ["a:9876"], {}),
        ("pocketmq://a/shop", ["a:9876"], {"namespace": "shop"}),
        (
            "pocketmq://key:sec%40ret@a:1",
            ["a:1"],
            {"credentials": Credentials("key", "sec@ret")},
        ),
    ],
)
def test_the_url_names_servers_keys_and_namespace(
    url: str, namesrv: list[str], settings: dict[str, object]
) -> None:
    assert read_address(url) == (namesrv, settings)


def test_a_url_without_a_host_is_refused() -> None:
    with pytest.raises(ConfigError, match="names no host"):
        read_address("pocketmq:///shop")
