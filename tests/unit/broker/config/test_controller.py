"""`controllerAddr`: a name server, or members of etcd."""

from __future__ import annotations

from typing import Any

import pytest

from pocketmq.broker.config.config import BrokerConfig
from pocketmq.broker.config.controller import Controller, parse_controller
from pocketmq.protocol.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "controller"),
    [
        ("host:9876", Controller(addresses=("host:9876",))),
        (" etcd://a:2379 ", Controller(addresses=("a:2379",), is_etcd=True)),
        (
            "etcd://a:2379,b:2379, a:2379/",
            Controller(addresses=("a:2379", "b:2379"), is_etcd=True),
        ),
        (
            "etcds://[::1]:2379",
            Controller(addresses=("[::1]:2379",), is_etcd=True, is_tls=True),
        ),
    ],
)
def test_what_is_read(text: str, controller: Controller) -> None:
    assert parse_controller(text) == controller


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a:9876;b:9876", "names 2 name servers: exactly one has the arbiter"),
        ("a", "is not of the form host:port"),
        ("http://a:2379", "begins with http://: it must be host:port"),
        ("etcd://", "names 0 members of etcd"),
        ("etcd://a", "is not of the form host:port"),
        ("etcd://a:99999", "is not of the form host:port"),
        ("etcd://a:2379/v3", "has a path"),
        ("etcd://root:pw@a:2379", "set etcdUser and etcdPassword instead"),
        ("etcd://" + ",".join(f"a{i}:1" for i in range(17)), "names 17 members of etcd"),
    ],
)
def test_what_is_refused(text: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told) as caught:
        BrokerConfig(broker_id=1, enable_controller_mode=True, controller_addr=text)
    assert "pw" not in str(caught.value)


@pytest.mark.parametrize(
    ("address", "settings", "told"),
    [
        ("etcd://a:1", {"etcd_user": "a"}, "etcdUser and etcdPassword go together"),
        ("etcds://a:1", {"etcd_cert_path": "a"}, "etcdCertPath and etcdKeyPath go together"),
        ("etcd://a:1", {"etcd_trust_cert_path": "a"}, "does not begin with etcds://"),
    ],
)
def test_settings_of_etcd_fit_together(address: str, settings: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        BrokerConfig(broker_id=1, enable_controller_mode=True, controller_addr=address, **settings)


def test_the_password_is_not_shown() -> None:
    config = BrokerConfig(
        broker_id=1,
        enable_controller_mode=True,
        controller_addr="etcd://a:1",
        etcd_user="a",
        etcd_password="hidden",
    )
    assert "hidden" not in repr(config)
