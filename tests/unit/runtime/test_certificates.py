"""Certificates that a cluster makes for itself, as OpenSSL sees them."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from pocketmq.runtime.certificates import (
    SERVER_DAYS,
    Issued,
    days_left,
    hosts_of,
    make_ca,
    make_certificate,
)
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.private_files import write_private
from pocketmq.testing.clock import VirtualClock

HOSTS = ["localhost", "127.0.0.1", "::1", "broker.example"]


@pytest.fixture(scope="module")
def ca() -> Issued:
    return make_ca("test", VirtualClock())


@pytest.fixture(scope="module")
def server(ca: Issued) -> Issued:
    return make_certificate(HOSTS, ca, VirtualClock())


def handshake(ca: Issued, server: Issued, host: str, directory: Path) -> None:
    """A whole TLS handshake in memory."""
    write_private(directory / "cert.pem", server.certificate)
    write_private(directory / "key.pem", server.key)
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(directory / "cert.pem", directory / "key.pem")
    asking = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    asking.load_verify_locations(cadata=ca.certificate.decode())
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = asking.wrap_bio(down, up, server_hostname=host)
    peer = serving.wrap_bio(up, down, server_side=True)
    for _ in range(3):
        for side in (client, peer):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue


def test_names_and_addresses_are_in_the_certificate(server: Issued) -> None:
    assert hosts_of(server.certificate) == HOSTS


def test_days_left(server: Issued) -> None:
    assert days_left(server.certificate, VirtualClock()) == pytest.approx(SERVER_DAYS, abs=0.01)


def test_the_key_is_not_shown(server: Issued) -> None:
    assert "PRIVATE" not in repr(server)
    assert b"PRIVATE KEY" in server.key


@pytest.mark.parametrize("host", HOSTS)
def test_openssl_accepts_each_name(host: str, tmp_path: Path) -> None:
    ca = make_ca("test", SystemClock())
    handshake(ca, make_certificate(HOSTS, ca, SystemClock()), host, tmp_path)


def test_openssl_refuses_other_names(tmp_path: Path) -> None:
    ca = make_ca("test", SystemClock())
    with pytest.raises(ssl.SSLCertVerificationError, match=r"other\.example"):
        handshake(ca, make_certificate(HOSTS, ca, SystemClock()), "other.example", tmp_path)


def test_openssl_refuses_another_authority(tmp_path: Path) -> None:
    ca, other = make_ca("a", SystemClock()), make_ca("b", SystemClock())
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(other, make_certificate(HOSTS, ca, SystemClock()), "localhost", tmp_path)
