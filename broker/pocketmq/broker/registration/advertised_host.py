"""The host under which a broker tells clients to reach it."""

from __future__ import annotations

import socket

from pocketmq.broker.config.config import BrokerConfig

_ANY_ADDRESS = ("0.0.0.0", "::", "")  # noqa: S104


def advertised_host(config: BrokerConfig) -> str:
    """Chooses brokerIP1, else the address that is listened on, else this machine's address."""
    if config.broker_ip1:
        return config.broker_ip1
    if config.bind_address not in _ANY_ADDRESS:
        return config.bind_address
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return "127.0.0.1"
