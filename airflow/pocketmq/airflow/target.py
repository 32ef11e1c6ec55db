"""Which cluster a connection of Airflow names, and with which rights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from pocketmq.client.settings import InstanceSettings, take_settings
from pocketmq.protocol.errors import ConfigError
from pocketmq.protocol.signing import Credentials

DEFAULT_PORT = 9876


class AirflowConnection(Protocol):
    """The fields of a connection that count."""

    conn_id: str
    host: str | None
    port: int | None
    login: str | None
    password: str | None

    @property
    def extra_dejson(self) -> Mapping[str, Any]:
        """The field "extra", which is a JSON object."""


class Target(NamedTuple):
    """A cluster: its name servers, and settings of the client."""

    namesrv: list[str]
    settings: dict[str, Any]


def target_of(connection: AirflowConnection) -> Target:
    """Reads a connection.

    Args:
        connection: host (several with ``;`` or ``,``) and port of the name servers, the access key
            as login and the secret key as password, fields of `InstanceSettings` as extra.

    Raises:
        ConfigError: there is no host, or an extra is no setting.
    """
    hosts = (connection.host or "").replace(",", ";").split(";")
    port = connection.port or DEFAULT_PORT
    namesrv = [host if ":" in host else f"{host}:{port}" for host in map(str.strip, hosts) if host]
    if not namesrv:
        raise ConfigError(
            f"the connection {connection.conn_id} has no host: give the name servers, such as "
            f"10.0.0.1 or 10.0.0.1:9876;10.0.0.2:9876"
        )
    settings = dict(connection.extra_dejson)
    try:
        take_settings(InstanceSettings, settings)
    except ConfigError as e:
        raise ConfigError(f"the extra of connection {connection.conn_id}: {e}") from e
    if connection.login:
        settings["credentials"] = Credentials(connection.login, connection.password or "")
    return Target(namesrv, settings)
