"""The metric of certificates, which all servers that speak TLS have."""

from __future__ import annotations

from pocketmq.runtime.metrics.exposition import Exposition, Family, Kind

CERTIFICATE_EXPIRY = Family(
    "pocketmq_certificate_expiry_timestamp_seconds",
    Kind.GAUGE,
    "When the server's certificate expires",
)


def write_expiry(out: Exposition, labels: str, expires_ms: float | None) -> None:
    """Writes when a certificate expires.

    Args:
        out: the scrape.
        labels: of the sample.
        expires_ms: in milliseconds since the epoch; None without a certificate.
    """
    if expires_ms is not None:
        out.begin(CERTIFICATE_EXPIRY)
        out.sample(labels, round(expires_ms / 1000))
