"""Checks how long the certificates of servers are valid."""

from __future__ import annotations

from pocketmq.client.diagnosis.cluster_state import ClusterState
from pocketmq.client.diagnosis.findings import Finding, Severity
from pocketmq.runtime.certificates import days_left

CERTIFICATES = "certificates"

WARN_DAYS, ERROR_DAYS = 30, 7
"""So long before its end a certificate is warned of, and is an error; as in servers' logs."""


async def check_certificates(state: ClusterState) -> list[Finding]:
    """Tells how long the certificates of all servers are valid that are reached over TLS."""
    servers = {server.address: server.address for server in state.name_servers}
    servers |= {broker.address: str(broker) for broker in state.brokers}
    found = []
    for address, subject in servers.items():
        connection = state.pool.peek(address)
        certificate = None if connection is None else connection.peer_certificate
        if certificate is None:
            continue
        days = days_left(certificate, state.clock)
        severity = (
            Severity.ERROR if days < ERROR_DAYS
            else Severity.WARNING if days < WARN_DAYS
            else Severity.NOTE
        )  # fmt: skip
        found.append(
            Finding(
                CERTIFICATES,
                severity,
                subject,
                f"its certificate expires in {days:.0f} days",
                "put a new one, and its key, into the files that tlsServerCertPath and "
                "tlsServerKeyPath name: it is read within seconds, without a restart",
            )
        )
    return found
