"""Files of certificates, valid under the clock of the tests and under the machine's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pocketmq.runtime.certificates import Issued, make_ca, make_certificate
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.private_files import write_private
from pocketmq.testing.clock import VirtualClock
from pocketmq.transport.tls.settings import ClientTls, ServerTls, TlsMode

DAYS = 20_000
"""From the first day of a virtual clock until long after these tests."""


class CertificateFiles:
    """An authority's certificate, and a server's with its key, in a directory.

    Attributes:
        ca: the authority.
        ca_path, cert_path, key_path: the files.
    """

    def __init__(
        self,
        directory: Path,
        hosts: Sequence[str] = ("localhost", "127.0.0.1"),
        *,
        ca: Issued | None = None,
        clock: Clock | None = None,
        days: int = DAYS,
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.ca = ca or make_ca("tests", VirtualClock(), DAYS)
        self.ca_path = str(directory / "ca.pem")
        self.cert_path, self.key_path = str(directory / "cert.pem"), str(directory / "key.pem")
        Path(self.ca_path).write_bytes(self.ca.certificate)
        self.renew(hosts, clock or VirtualClock(), days)

    def renew(self, hosts: Sequence[str], clock: Clock, days: int = DAYS) -> None:
        """Writes another certificate and key of the same authority."""
        issued = make_certificate(hosts, self.ca, clock, days)
        Path(self.cert_path).write_bytes(issued.certificate)
        write_private(Path(self.key_path), issued.key)

    def server(self, mode: TlsMode = TlsMode.ENFORCING, **settings: Any) -> ServerTls:
        """How a server speaks TLS with them."""
        return ServerTls(mode=mode, cert_path=self.cert_path, key_path=self.key_path, **settings)

    def client(self, **settings: Any) -> ClientTls:
        """How a client speaks TLS to such a server."""
        return ClientTls(**({"trust_cert_path": self.ca_path} | settings))

    def config(self, mode: str = "enforcing", **settings: Any) -> dict[str, Any]:
        """The settings of a broker or name server with them."""
        return {
            "tls_server_mode": mode,
            "tls_server_cert_path": self.cert_path,
            "tls_server_key_path": self.key_path,
            **settings,
        }
