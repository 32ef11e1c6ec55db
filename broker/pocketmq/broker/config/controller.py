"""Where the arbiter of a broker set is: the setting controllerAddr."""

from __future__ import annotations

from urllib.parse import urlsplit

import msgspec

from pocketmq.protocol.errors import ConfigError, UsageError
from pocketmq.protocol.messages.hosts import join_address, split_address

ENDPOINTS_MAX = 16
"""Endpoints of one etcd cluster; etcd itself advises at most seven members."""

_ETCD, _ETCD_TLS = "etcd", "etcds"


class Controller(msgspec.Struct, frozen=True, kw_only=True):
    """An arbiter's place.

    Attributes:
        addresses: ``host:port`` of one name server, or of etcd's members.
        is_etcd: whether etcd is the arbiter, not a name server.
        is_tls: whether etcd is spoken to over TLS.
    """

    addresses: tuple[str, ...]
    is_etcd: bool = False
    is_tls: bool = False


def parse_controller(text: str) -> Controller:
    """Reads controllerAddr.

    Args:
        text: ``host:port`` of a name server; ``etcd://host:2379,host:2379``, or ``etcds://…`` for
            TLS.

    Raises:
        ConfigError: it is neither.
    """
    scheme, is_url, rest = text.strip().partition("://")
    if not is_url:
        addresses = _addresses(text.replace(";", ","))
        if len(addresses) != 1:
            raise ConfigError(
                f"controllerAddr names {len(addresses)} name servers: exactly one has the arbiter "
                f"(arbiterPath); with several name servers use etcd://host:2379,host:2379"
            )
        return Controller(addresses=addresses)
    if scheme not in (_ETCD, _ETCD_TLS):
        raise ConfigError(
            f"controllerAddr begins with {scheme}://: it must be host:port of a name server, "
            f"etcd://host:2379, or etcds://host:2379 for TLS"
        )
    if "@" in rest:
        raise ConfigError(
            "controllerAddr has a user in it, which listings of settings would show: set etcdUser "
            "and etcdPassword instead"
        )
    if urlsplit(f"//{rest}").path.strip("/"):
        raise ConfigError("controllerAddr has a path: etcd's members are host:port alone")
    addresses = _addresses(rest.rstrip("/"))
    if not 1 <= len(addresses) <= ENDPOINTS_MAX:
        raise ConfigError(
            f"controllerAddr names {len(addresses)} members of etcd: name 1 to {ENDPOINTS_MAX}"
        )
    return Controller(addresses=addresses, is_etcd=True, is_tls=scheme == _ETCD_TLS)


def _addresses(text: str) -> tuple[str, ...]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    try:
        split = [split_address(part) for part in parts]
    except UsageError as e:
        raise ConfigError(f"controllerAddr: {e}") from None
    return tuple(dict.fromkeys(join_address(*address) for address in split))
