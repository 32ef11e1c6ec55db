"""Checks that all name servers answer and know the same brokers."""

from __future__ import annotations

from pocketmq.client.diagnosis.cluster_state import ClusterState
from pocketmq.client.diagnosis.findings import Finding, Severity

REACHABLE = "name servers"
REGISTERED = "registration"


async def check_name_servers(state: ClusterState) -> list[Finding]:
    """Finds name servers that do not answer: clients may choose any one of them."""
    return [
        Finding(
            REACHABLE,
            Severity.ERROR,
            server.address,
            f"this name server does not answer: {server.error}",
            "check host and port (its own default is 9876), that it runs (`pocketmq namesrv`, "
            "mqnamesrv), and firewalls or published ports on the way; or take it off the list",
        )
        for server in state.name_servers
        if server.error
    ]


async def check_registration(state: ClusterState) -> list[Finding]:
    """Finds brokers that are not registered with every name server, as each broker must be."""
    answering = [server.address for server in state.name_servers if not server.error]
    if answering and not state.brokers:
        return [
            Finding(
                REGISTERED,
                Severity.ERROR,
                ", ".join(answering),
                "no broker is registered",
                "start one, and see that its namesrvAddr names these name servers by an address "
                "that it reaches from where it runs (in a container, localhost is the container)",
            )
        ]
    return [
        Finding(
            REGISTERED,
            Severity.ERROR,
            str(broker),
            f"the broker at {broker.address} is unknown to {', '.join(missing)}, where clients "
            f"find none of its topics",
            f"have its namesrvAddr name all of {';'.join(answering)}; a name server that was just "
            f"started knows it after the next registration, at most 30 s later",
        )
        for broker in state.brokers
        if (missing := [address for address in answering if address not in broker.namesrvs])
        # Another address of the same broker there (`advertise:`) is no gap.
        and not any(
            other.name == broker.name
            and other.broker_id == broker.broker_id
            and set(missing) <= set(other.namesrvs)
            for other in state.brokers
        )
    ]
