"""The metric of certificates, which all servers that speak TLS have."""

from __future__ import annotations

from pocketmq.runtime.metrics.exposition import Family, Kind

CERTIFICATE_EXPIRY = Family(
    "pocketmq_certificate_expiry_timestamp_seconds",
    Kind.GAUGE,
    "When the server's certificate expires",
)
