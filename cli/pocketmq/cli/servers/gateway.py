"""Finds the gateway of a container, from which clients of published ports come."""

from __future__ import annotations

import ipaddress
from pathlib import Path

from pocketmq.protocol.errors import ConfigError

ROUTES = Path("/proc/net/route")


def default_gateway(routes: Path = ROUTES) -> str:
    """Returns the address of this machine's default gateway.

    Raises:
        ConfigError: the machine has no default gateway, or is no Linux.
    """
    try:
        lines = routes.read_text().splitlines()[1:]
    except OSError as e:
        raise ConfigError(
            f"--published is for containers, and there is no {routes} here ({e.strerror}): leave "
            "it out"
        ) from e
    for line in lines:
        _, destination, gateway, *_ = line.split()
        if destination == "00000000" and gateway != "00000000":
            # as the processor has it: the first byte is the last one on Intel and ARM
            return str(ipaddress.ip_address(bytes.fromhex(gateway)[::-1]))
    raise ConfigError(
        f"--published is for containers in a network, and {routes} names no default gateway: "
        "leave it out"
    )
