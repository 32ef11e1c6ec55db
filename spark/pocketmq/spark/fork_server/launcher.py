"""The program that Spark starts as Python: it asks the fork server for the process.

A script of the standard library alone, which runs without site-packages: to start it is most of
what a process of Spark's costs then. Where the server does not answer, the script becomes Python.

    python -IS launcher.py SOCKET PYTHON -m MODULE ARGUMENT...
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys

NUMBER_SIZE = 4
"""Bytes of a number on the connection: signed, big-endian."""


def main() -> int:
    """Has the fork server run a module; returns the exit status of its process."""
    address, python, *arguments = sys.argv[1:]
    if arguments[:1] == ["-m"]:
        with socket.socket(socket.AF_UNIX) as server:
            try:
                pid = forked(server, address, arguments[1:])
            except OSError:
                pid = 0
            if pid:
                return status_of(server, pid)
    return os.execv(python, [python, *arguments])  # noqa: S606 (no shell)


def forked(server: socket.socket, address: str, arguments: list[str]) -> int:
    """Asks for a process with this one's streams, environment and folder; returns its id.

    Raises:
        OSError: the server is not there, or gives none.
    """
    server.connect(address)
    wanted = {"arguments": arguments, "environment": dict(os.environ), "folder": os.getcwd()}
    request = json.dumps(wanted).encode()
    socket.send_fds(server, [len(request).to_bytes(NUMBER_SIZE, "big")], [0, 1, 2])
    server.sendall(request)
    return number(server)


def status_of(server: socket.socket, pid: int) -> int:
    """Waits for the end of the process; passes on that this one is to end."""

    def end(signal_number: int, frame: object) -> None:
        try:
            os.kill(pid, signal_number)
        except ProcessLookupError:
            sys.exit(1)

    signal.signal(signal.SIGTERM, end)
    try:
        return number(server)
    except OSError:
        return 1  # the server was killed


def number(connection: socket.socket) -> int:
    """Receives a number.

    Raises:
        ConnectionError: the peer closed.
    """
    found = connection.recv(NUMBER_SIZE, socket.MSG_WAITALL)
    if len(found) < NUMBER_SIZE:
        raise ConnectionError("the fork server closed the connection")
    return int.from_bytes(found, "big", signed=True)


if __name__ == "__main__":
    sys.exit(main())
