"""Tells the service manager that started this process how the process is: systemd's notifications.

The manager names a datagram socket in NOTIFY_SOCKET and takes lines such as READY=1 from it
(`sd_notify`). Under any other parent the variable is missing, and nobody is told anything.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import MutableMapping

from pocketmq.runtime.clock import Clock
from pocketmq.runtime.tasks import Tasks, repeat

log = logging.getLogger("pocketmq.service_manager")

SOCKET_VARIABLE = "NOTIFY_SOCKET"
_WATCHDOG_VARIABLE, _WATCHDOG_PID_VARIABLE = "WATCHDOG_USEC", "WATCHDOG_PID"

STATUS_SIZE_MAX = 200
"""Characters of the line that `systemctl status` shows."""


class ServiceManager:
    """The manager of this process's service.

    Args:
        address: of the manager's socket; a leading ``@`` stands for Linux' abstract namespace.
        watchdog_s: after so many seconds without a sign of life the manager ends the process; 0 if
            it does not.

    Attributes:
        watchdog_s: the same.
    """

    def __init__(self, address: str, watchdog_s: float = 0.0) -> None:
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self.watchdog_s = watchdog_s
        self._tasks = Tasks()

    @classmethod
    def of_environment(cls, environment: MutableMapping[str, str]) -> ServiceManager | None:
        """Finds the manager that the environment names; None without one.

        The variables are removed, so that processes that this one starts do not speak for it.
        """
        address = environment.pop(SOCKET_VARIABLE, "")
        period_us = environment.pop(_WATCHDOG_VARIABLE, "")
        watched_pid = environment.pop(_WATCHDOG_PID_VARIABLE, str(os.getpid()))
        if address[:1] not in ("/", "@"):
            return None
        is_watched = period_us.isdecimal() and watched_pid == str(os.getpid())
        return cls(address, int(period_us) / 1_000_000 if is_watched else 0.0)

    def tell(self, *lines: str) -> None:
        """Sends lines of the form ``NAME=VALUE`` as one datagram.

        A manager that cannot be reached is logged: the process serves all the same.
        """
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as out:
            out.setblocking(False)
            try:
                out.sendto("\n".join(lines).encode(), self._address)
            except OSError as e:
                log.warning("the service manager was not told %s: %s", lines[0], e)

    def serving(self, clock: Clock, status: str) -> None:
        """Tells that the process serves, and from now on, that it lives.

        Signs of life come from the event loop: a loop that is blocked gives none, and the manager
        ends the process.

        Args:
            clock: by which signs of life are given, two in `watchdog_s`.
            status: a line about the server.
        """
        if self.watchdog_s:
            beat = repeat(clock, self.watchdog_s / 2, lambda: self.tell("WATCHDOG=1"))
            self._tasks.spawn(beat, "tell the service manager of life")
        self.tell("READY=1", _status(status))

    def stopping(self) -> None:
        """Tells that the process begins to stop; signs of life go on until `close`."""
        self.tell("STOPPING=1", _status("stopping"))

    async def close(self) -> None:
        """Ends the signs of life. Idempotent."""
        await self._tasks.close()


def _status(text: str) -> str:
    return "STATUS=" + " ".join(text.split())[:STATUS_SIZE_MAX]
