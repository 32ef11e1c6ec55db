"""Addresses as stored records hold them: IPv4 (4 bytes) or IPv6 (16), then the port as int32."""

from __future__ import annotations

import ipaddress
from functools import lru_cache

from pocketmq.protocol.errors import ConfigError, UsageError

IPV4_HOST_SIZE = 8
IPV6_HOST_SIZE = 20


PORT_MAX = 0xFFFF


def check_port(port: int, what: str) -> None:
    """Refuses numbers that are no ports; 0 stands for a port of the system's choice.

    Args:
        port: the number.
        what: it is of, for the error.

    Raises:
        ConfigError: it is no port.
    """
    if not 0 <= port <= PORT_MAX:
        raise ConfigError(
            f"the port of {what} is {port}: it must be between 0 and {PORT_MAX}, and with 0 the "
            f"system chooses one"
        )


def split_address(address: str) -> tuple[str, int]:
    """Splits ``host:port`` or ``[v6]:port`` into host and port.

    Raises:
        UsageError: there is no port, or it is no number.
    """
    host, _, port = address.strip().rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or int(port) > PORT_MAX:
        raise UsageError(f"the address {address!r} is not of the form host:port")
    return host.strip("[]"), int(port)


def join_address(host: str, port: int) -> str:
    """Joins host and port to ``host:port``, with IPv6 in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@lru_cache(maxsize=4096)
def encode_host(host: str, port: int) -> bytes:
    """Encodes an IP address and a port as a record holds them; a name becomes 127.0.0.1."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        address = ipaddress.IPv4Address("127.0.0.1")
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    return address.packed + port.to_bytes(4, "big")


@lru_cache(maxsize=4096)
def decode_host(data: bytes) -> str:
    """Decodes an address of 8 or 20 bytes to ``host:port``."""
    return join_address(str(ipaddress.ip_address(data[:-4])), int.from_bytes(data[-4:], "big"))
