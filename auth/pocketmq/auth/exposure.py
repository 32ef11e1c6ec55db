"""Refuses to serve a network without authentication, unless that is wanted."""

from __future__ import annotations

from ipaddress import ip_address

from pocketmq.protocol.errors import ConfigError


def check_exposure(server: str, host: str, *, is_guarded: bool, insecure: bool) -> None:
    """Checks that others cannot reach a server that asks nobody who they are.

    Args:
        server: its name, for the error.
        host: the address that it is to listen on.
        is_guarded: whether it authenticates its clients.
        insecure: whether it is open to everybody on purpose.

    Raises:
        ConfigError: it would be open to everybody who reaches the machine; the text names both
            ways out.
    """
    if is_guarded or insecure or is_loopback(host):
        return
    raise ConfigError(
        f"{server} would listen on {host} without authentication: whoever reaches it could read, "
        f"send and delete everything. Turn authentication on (authenticationEnabled; `pocketmq up "
        f"--secure` sets up all of it), or say that it is open on purpose (insecure: true, "
        f"--insecure)"
    )


def is_loopback(host: str) -> bool:
    """Whether only programs of this machine reach an address."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:  # a host name
        return False
