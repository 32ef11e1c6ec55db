"""Where a client learns whether it speaks TLS."""

from __future__ import annotations

from contextvars import copy_context
from pathlib import Path
from typing import Any

import pytest

from pocketmq.client import ClientTls
from pocketmq.client.instance.instance import ClientInstance
from pocketmq.client.tls import chosen_tls, default_tls, portable_tls, use_tls
from pocketmq.protocol.errors import ConfigError


@pytest.fixture(autouse=True)
def empty_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("", "_TRUST_CERT", "_CERT", "_KEY"):
        monkeypatch.delenv(f"POCKETMQ_TLS{name}", raising=False)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, None),
        ({"": "false"}, None),
        ({"": "true"}, ClientTls()),
        ({"": "1"}, ClientTls()),
        ({"_TRUST_CERT": "ca.pem"}, ClientTls(trust_cert_path="ca.pem")),
        ({"_TRUST_CERT": "ca.pem", "": "false"}, None),
        (
            {"_TRUST_CERT": "ca", "_CERT": "c", "_KEY": "k"},
            ClientTls(trust_cert_path="ca", cert_path="c", key_path="k"),
        ),
    ],
)
def test_the_environment(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: ClientTls | None
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(f"POCKETMQ_TLS{name}", value)
    assert default_tls() == expected


def test_a_word_that_is_neither_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POCKETMQ_TLS", "perhaps")
    with pytest.raises(ConfigError, match="POCKETMQ_TLS is 'perhaps': it must be true or false"):
        default_tls()


def test_the_order_of_precedence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POCKETMQ_TLS_TRUST_CERT", "environment")
    own, process = ClientTls(trust_cert_path="own"), ClientTls(trust_cert_path="process")

    def check() -> None:
        assert chosen_tls(True) == ClientTls(trust_cert_path="environment")
        use_tls(process)
        assert chosen_tls(None) == chosen_tls(True) == process
        assert chosen_tls(own) is own
        assert chosen_tls(False) is None
        use_tls(None)
        assert chosen_tls(None) == ClientTls(trust_cert_path="environment")

    copy_context().run(check)


@pytest.mark.parametrize(
    ("given", "expected"),
    [(None, None), (False, None), (True, ClientTls()), (ClientTls(verify=False),) * 2],
)
def test_an_instance_is_told(given: Any, expected: ClientTls | None) -> None:
    assert ClientInstance("h:1", tls=given).tls == expected


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ConfigError, match="tls='yes' does not fit"):
        ClientInstance("h:1", tls="yes")


def test_certificates_travel_as_text(tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    path.write_text("PEM")
    assert portable_tls(ClientTls(trust_cert_path=str(path))) == ClientTls(trust_certs="PEM")
    assert portable_tls(ClientTls()) == ClientTls()
    with pytest.raises(ConfigError, match=r"none\.pem cannot be read: No such file"):
        portable_tls(ClientTls(trust_cert_path=str(tmp_path / "none.pem")))
