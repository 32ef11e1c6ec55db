"""Checks that RocketMQ 5's SDKs reach the gRPC endpoints of brokers."""

from __future__ import annotations

import asyncio

from pocketmq.client.diagnosis.cluster_state import BrokerState, ClusterState
from pocketmq.client.diagnosis.findings import Finding, Severity
from pocketmq.protocol.messages.hosts import join_address, split_address
from pocketmq.runtime.clock import within

ENDPOINTS = "gRPC endpoints"

TIMEOUT_S = 3.0

GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
"""How a client of HTTP/2 begins: the preface, and a frame of settings."""

SETTINGS_FRAME = 4


async def check_grpc_endpoints(state: ClusterState) -> list[Finding]:
    """Greets each endpoint as SDKs do, plainly: endpoints take TLS and plain calls on one port.

    Brokers without an endpoint are left out, and those whose endpoint takes TLS alone.
    """
    found = []
    for broker in state.brokers:
        text = broker.settings.get("grpcServerPort", "")
        is_plain = broker.settings.get("tlsServerMode", "disabled") != "enforcing"
        if broker.error or not text.isdigit() or not int(text) or not is_plain:
            continue
        reason = await _trouble(state, broker, int(text))
        if reason:
            found.append(_finding(broker, int(text), reason))
    return found


async def _trouble(state: ClusterState, broker: BrokerState, port: int) -> str:
    """Why an endpoint does not answer; empty if it does."""
    host, _ = split_address(broker.address)
    try:
        return await within(state.clock, TIMEOUT_S, _greet(host, port))
    except TimeoutError:
        return f"it does not answer in {TIMEOUT_S:g} s"
    except OSError as e:
        return e.strerror or str(e)


async def _greet(host: str, port: int) -> str:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(GREETING)
        head = await reader.read(4)
    finally:
        writer.close()
    if len(head) < 4 or head[3] != SETTINGS_FRAME:
        return "what listens there speaks no HTTP/2"
    return ""


def _finding(broker: BrokerState, port: int, reason: str) -> Finding:
    host, _ = split_address(broker.address)
    return Finding(
        ENDPOINTS,
        Severity.ERROR,
        str(broker),
        f"its gRPC endpoint at {join_address(host, port)} is not reached from here: {reason}",
        f"RocketMQ 5's SDKs need it (grpcServerPort): publish the port {port} of the broker's "
        f"container or firewall as the same port, and look whether another program has it",
    )
