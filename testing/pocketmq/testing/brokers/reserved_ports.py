"""Ports that stay a broker's while it is down: nobody else gets one by the system's choice.

A socket that is bound, but does not listen, reserves its port on Linux: the system chooses it for
no other socket, and one that asks for it by number may listen on it.
"""

from __future__ import annotations

import socket


class ReservedPorts:
    """The ports of one broker."""

    def __init__(self) -> None:
        self._sockets: list[socket.socket] = []

    def reserve(self, host: str) -> int:
        """Reserves a free port of an address of this machine, until `release`.

        Raises:
            OSError: the address is not of this machine.
        """
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        reserving = socket.socket(family, socket.SOCK_STREAM)
        self._sockets.append(reserving)
        reserving.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserving.bind((host, 0))
        return int(reserving.getsockname()[1])

    def release(self) -> None:
        """Gives all ports back."""
        sockets, self._sockets = self._sockets, []
        for one in sockets:
            one.close()
