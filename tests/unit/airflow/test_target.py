"""What a connection of Airflow says of a cluster."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from pocketmq.airflow.target import Target, target_of
from pocketmq.protocol.errors import ConfigError
from pocketmq.protocol.signing import Credentials


@dataclass
class Connection:
    """The fields of Airflow's class."""

    host: str | None = None
    port: int | None = None
    login: str | None = None
    password: str | None = None
    extra_dejson: dict[str, Any] = field(default_factory=dict)
    conn_id: str = "shop"


def test_hosts_get_the_port_of_the_connection() -> None:
    assert target_of(Connection("a")) == Target(["a:9876"], {})
    assert target_of(Connection("a; b:1,c", 5)) == Target(["a:5", "b:1", "c:5"], {})


def test_login_password_and_extra_are_settings() -> None:
    target = target_of(Connection("a", None, "key", "secret", {"namespace": "shop"}))
    credentials = Credentials("key", "secret")
    assert target.settings == {"credentials": credentials, "namespace": "shop"}


@pytest.mark.parametrize(
    ("connection", "text"),
    [
        (Connection(), "connection shop has no host: give the name servers"),
        (Connection("a", extra_dejson={"namespce": "x"}), "did you mean 'namespace'"),
    ],
)
def test_what_does_not_fit_is_refused(connection: Connection, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        target_of(connection)
