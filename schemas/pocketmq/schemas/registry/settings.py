"""How the schema registry is reached."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

import msgspec

from pocketmq.protocol.errors import ConfigError
from pocketmq.protocol.signing import MASK

URL_VARIABLE = "POCKETMQ_SCHEMA_REGISTRY"
USER_VARIABLE = "POCKETMQ_SCHEMA_REGISTRY_USER"
TOKEN_VARIABLE = "POCKETMQ_SCHEMA_REGISTRY_TOKEN"  # noqa: S105
TRUST_VARIABLE = "POCKETMQ_SCHEMA_REGISTRY_TRUST_CERT"

TIMEOUT_S = 5.0


class RegistrySettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a registry is reached.

    Attributes:
        url: such as ``https://registry.example.org:8081``; a path before the API's is kept.
        user: ``name:password`` for HTTP's Basic scheme; empty for none.
        token: for the Bearer scheme; empty for none.
        trust_cert_path: the file of the authorities whose certificates are taken, as PEM; empty for
            those of the system.
        timeout_s: seconds for which the registry may be silent.
    """

    url: str
    user: str = ""
    token: str = ""
    trust_cert_path: str = ""
    timeout_s: float = TIMEOUT_S

    def __repr__(self) -> str:
        user = f"{self.user.partition(':')[0]}:{MASK}" if self.user else ""
        token = MASK if self.token else ""
        return f"RegistrySettings(url={self.url!r}, user={user!r}, token={token!r})"

    def check(self) -> None:
        """Refuses settings that cannot work.

        Raises:
            ConfigError: the URL is none of HTTP, or holds a secret, or two schemes are asked for.
        """
        try:
            parts = urlsplit(self.url)
            has_port = parts.port is None or parts.port > 0
        except ValueError:
            parts, has_port = urlsplit(""), False
        if parts.scheme not in ("http", "https") or not parts.hostname or not has_port:
            raise ConfigError(
                f"{self.url!r} is no address of a schema registry: write http://host:8081"
            )
        if parts.username is not None or parts.query or parts.fragment:
            raise ConfigError(
                f"the address of the schema registry is host, port and path: give the user by "
                f"{USER_VARIABLE}"
            )
        if self.user and self.token:
            raise ConfigError(
                f"give a user or a token for the schema registry, not both ({USER_VARIABLE}, "
                f"{TOKEN_VARIABLE})"
            )


def registry_settings(
    url: str | None = None, timeout_s: float = TIMEOUT_S
) -> RegistrySettings | None:
    """Returns how the registry is reached, by what is given and the environment; None for none.

    POCKETMQ_SCHEMA_REGISTRY is the address, POCKETMQ_SCHEMA_REGISTRY_USER ``name:password``,
    POCKETMQ_SCHEMA_REGISTRY_TOKEN a token, and POCKETMQ_SCHEMA_REGISTRY_TRUST_CERT the file of the
    authorities.

    Args:
        url: the address; by default that of the environment.
        timeout_s: seconds for which the registry may be silent.

    Raises:
        ConfigError: the settings cannot work.
    """
    address = url or os.environ.get(URL_VARIABLE, "")
    if not address:
        return None
    settings = RegistrySettings(
        url=address,
        user=os.environ.get(USER_VARIABLE, ""),
        token=os.environ.get(TOKEN_VARIABLE, ""),
        trust_cert_path=os.environ.get(TRUST_VARIABLE, ""),
        timeout_s=timeout_s,
    )
    settings.check()
    return settings
