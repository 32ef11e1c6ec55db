"""The list of name servers, in each form in which it can be given."""

from __future__ import annotations

import os
from collections.abc import Iterable

from pocketmq.protocol.errors import ConfigError, UsageError
from pocketmq.protocol.messages.hosts import join_address, split_address

NAMESRV_VARIABLE = "NAMESRV_ADDR"
"""The environment variable that RocketMQ's clients read too."""


def namesrv_addresses(namesrv: str | Iterable[str] | None = None) -> tuple[str, ...]:
    """Returns the addresses of the name servers, each as ``host:port``.

    Args:
        namesrv: ``"a:9876;b:9876"`` or several addresses; without it NAMESRV_ADDR is read.

    Raises:
        ConfigError: there is none, or one is not of the form host:port.
    """
    if namesrv is None:
        namesrv = os.environ.get(NAMESRV_VARIABLE, "")
    parts = namesrv.replace(",", ";").split(";") if isinstance(namesrv, str) else list(namesrv)
    addresses = [part.strip().removeprefix("http://") for part in parts if part.strip()]
    if not addresses:
        raise ConfigError(
            f"no name server is given: pass namesrv='host:9876' or set {NAMESRV_VARIABLE}"
        )
    try:
        return tuple(dict.fromkeys(join_address(*split_address(a)) for a in addresses))
    except UsageError as e:
        raise ConfigError(f"name server list: {e}") from e
