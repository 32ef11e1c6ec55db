"""The settings of TLS, checked as a whole."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pocketmq.broker import BrokerConfig
from pocketmq.namesrv.config import NamesrvConfig
from pocketmq.protocol.errors import ConfigError
from pocketmq.transport.tls.settings import (
    FIXED_KEYS,
    SECRET_KEYS,
    ClientAuth,
    ClientTls,
    ServerTls,
    TlsMode,
    client_tls,
    server_tls,
)

FILES: dict[str, Any] = {"tls_server_cert_path": "c.pem", "tls_server_key_path": "k.pem"}


def test_off_by_default() -> None:
    assert server_tls(BrokerConfig()).mode is TlsMode.DISABLED
    assert server_tls(NamesrvConfig()).mode is TlsMode.DISABLED
    assert client_tls(BrokerConfig()) is None


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"tls_server_mode": "on"}, "tlsServerMode is 'on': it must be disabled, permissive or"),
        ({"tls_server_mode": "enforcing"}, "needs tlsServerCertPath and tlsServerKeyPath"),
        (
            {"tls_server_mode": "permissive", **FILES, "tls_server_need_client_auth": "yes"},
            "tlsServerNeedClientAuth is 'yes': it must be none, optional or require",
        ),
        (
            {"tls_server_mode": "permissive", **FILES, "tls_server_need_client_auth": "require"},
            "tlsServerNeedClientAuth require needs tlsServerTrustCertPath",
        ),
    ],
)
def test_what_does_not_fit_names_its_keys(settings: dict[str, Any], error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        BrokerConfig(**settings)
    with pytest.raises(ConfigError, match=error):
        server_tls(NamesrvConfig(**settings))


@pytest.mark.parametrize("word", ["require", "required"])
def test_rocketmqs_two_words_for_mutual_tls(word: str) -> None:
    config = BrokerConfig(
        tls_server_mode="permissive",
        tls_server_need_client_auth=word,
        tls_server_trust_cert_path="ca.pem",
        **FILES,
    )
    assert server_tls(config).client_auth is ClientAuth.REQUIRE


@pytest.mark.parametrize(
    ("mode", "enable", "speaks"),
    [
        ("disabled", None, False),
        ("permissive", None, False),
        ("enforcing", None, True),
        ("enforcing", False, False),
        ("disabled", True, True),
    ],
)
def test_a_broker_speaks_to_name_servers_as_its_clients_to_it(
    mode: str, enable: bool | None, speaks: bool
) -> None:
    config = BrokerConfig(
        tls_server_mode=mode, tls_enable=enable, tls_client_trust_cert_path="ca.pem", **FILES
    )
    assert client_tls(config) == (ClientTls(trust_cert_path="ca.pem") if speaks else None)


def test_passwords_are_masked() -> None:
    config = BrokerConfig(tls_server_key_password="geheim", tls_client_key_password="geheim")
    for shown in (config, ServerTls(key_password="geheim"), ClientTls(key_password="geheim")):
        assert "geheim" not in repr(shown)


def test_every_setting_is_fixed() -> None:
    keys = {field.encode_name for field in msgspec.structs.fields(BrokerConfig)}
    assert {key for key in keys if key.startswith("tls")} == FIXED_KEYS
    assert SECRET_KEYS < FIXED_KEYS
