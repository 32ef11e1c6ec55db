"""Which addresses a server listens on without authentication."""

from __future__ import annotations

import pytest

from pocketmq.auth.exposure import check_exposure
from pocketmq.protocol.errors import ConfigError


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_the_loopback_address_needs_no_authentication(host: str) -> None:
    check_exposure("broker-a", host, is_guarded=False, insecure=False)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "broker.example", ""])
def test_others_are_refused_with_both_ways_out(host: str) -> None:
    with pytest.raises(ConfigError, match=r"broker-a .*authenticationEnabled.*insecure: true"):
        check_exposure("broker-a", host, is_guarded=False, insecure=False)
    check_exposure("broker-a", host, is_guarded=True, insecure=False)
    check_exposure("broker-a", host, is_guarded=False, insecure=True)
