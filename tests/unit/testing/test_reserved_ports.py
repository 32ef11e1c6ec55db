"""Ports of brokers that are down for a while."""

from __future__ import annotations

import socket

from pocketmq.testing.brokers.reserved_ports import ReservedPorts

HOST = "127.0.0.1"


def listening(port: int) -> socket.socket:
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind((HOST, port))
    listening.listen()
    return listening


def test_a_reserved_port_is_to_be_had_by_number_again_and_again() -> None:
    ports = ReservedPorts()
    port = ports.reserve(HOST)
    for _ in range(2):
        with listening(port) as server, socket.create_connection((HOST, port)):
            accepted, (host, _) = server.accept()
            assert host == HOST
            accepted.close()
    ports.release()


def test_no_two_reservations_have_one_port() -> None:
    ports = ReservedPorts()
    assert len({ports.reserve(HOST) for _ in range(50)}) == 50
    ports.release()
