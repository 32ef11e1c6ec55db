"""The certificates of a cluster on one machine, of an authority that it makes itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pocketmq.runtime.certificates import make_ca, make_certificate
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.private_files import write_private
from pocketmq.transport.tls.settings import ClientTls, TlsMode

HOSTS = ("localhost", "127.0.0.1", "::1")


class ClusterCertificates:
    """Makes an authority and one certificate of all servers, anew each time.

    Args:
        directory: for the files; made if it does not exist.
        clock: dates the certificates.

    Attributes:
        client: how clients speak TLS to the cluster.
    """

    def __init__(self, directory: Path, clock: Clock) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        ca = make_ca("PocketMQ cluster", clock)
        server = make_certificate(HOSTS, ca, clock)
        self._ca, self._cert, self._key = (
            str(directory / name) for name in ("ca.pem", "cert.pem", "key.pem")
        )
        for path, content in (
            (self._ca, ca.certificate),
            (self._cert, server.certificate),
            (self._key, server.key),
        ):
            write_private(Path(path), content)
        self.client = ClientTls(trust_cert_path=self._ca)

    @property
    def server_settings(self) -> dict[str, Any]:
        """The settings of a name server."""
        return {
            "tls_server_mode": TlsMode.ENFORCING.value,
            "tls_server_cert_path": self._cert,
            "tls_server_key_path": self._key,
        }

    @property
    def broker_settings(self) -> dict[str, Any]:
        """The settings of a broker, which asks name servers."""
        return {**self.server_settings, "tls_client_trust_cert_path": self._ca}
