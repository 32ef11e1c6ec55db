from __future__ import annotations

from collections.abc import Iterable

import pytest

from pocketmq.client.instance.addresses import NAMESRV_VARIABLE, namesrv_addresses
from pocketmq.protocol.errors import ConfigError


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("a:1;b:2", ("a:1", "b:2")),
        ("a:1, b:2", ("a:1", "b:2")),
        (" a:1 ; ", ("a:1",)),
        (["a:1", "b:2", "a:1"], ("a:1", "b:2")),
        ("http://a:1", ("a:1",)),
        ("[::1]:9876", ("[::1]:9876",)),
    ],
)
def test_forms(given: str | Iterable[str], expected: tuple[str, ...]) -> None:
    assert namesrv_addresses(given) == expected


def test_the_environment_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAMESRV_VARIABLE, "x:1;y:2")
    assert namesrv_addresses() == ("x:1", "y:2")
    assert namesrv_addresses("a:1") == ("a:1",)


@pytest.mark.parametrize("given", ["", "  ;", [], "host", "host:port", "host:99999"])
def test_unusable_lists_are_refused(
    given: str | list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(NAMESRV_VARIABLE, raising=False)
    with pytest.raises(ConfigError):
        namesrv_addresses(given)


def test_without_any_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(NAMESRV_VARIABLE, raising=False)
    with pytest.raises(ConfigError, match=NAMESRV_VARIABLE):
        namesrv_addresses()
