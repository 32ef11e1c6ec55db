"""Checks that brokers answer at their registered addresses, and what they say of themselves."""

from __future__ import annotations

from pocketmq.client.diagnosis.cluster_state import BrokerState, ClusterState
from pocketmq.client.diagnosis.findings import Finding, Severity
from pocketmq.protocol.bodies.brokers import RELEASE_FIGURE
from pocketmq.protocol.flags import is_readable, is_writable, perm_text
from pocketmq.protocol.messages.hosts import split_address

REACHABLE = "broker addresses"
PERMISSIONS = "broker permissions"
DAMAGE = "damaged queues"
VERSIONS = "versions"

LOOPBACK = ("127.", "localhost", "::1")


async def check_addresses(state: ClusterState) -> list[Finding]:
    """Checks that brokers answer at the addresses that they registered, which clients dial.

    Addresses that are valid only inside a container network are the usual cause.
    """
    found = []
    for broker in state.brokers:
        if broker.error and broker.is_connected:
            found.append(_unanswering(broker))
        elif broker.error:
            found.append(_unreachable(broker))
        elif (name := broker.settings.get("brokerName", broker.name)) != broker.name:
            found.append(
                Finding(
                    REACHABLE,
                    Severity.ERROR,
                    str(broker),
                    f"at its address {broker.address} another broker answers, {name}",
                    f"two brokers tell the same address: give {broker} a brokerIP1 and listenPort "
                    f"of its own; in containers publish each under its own listenPort",
                )
            )
    return found


def _unreachable(broker: BrokerState) -> Finding:
    host, port = split_address(broker.address)
    if host.startswith(LOOPBACK):
        where = "If it runs on another machine or in a container, it tells everybody a loopback "
        where += "address: set brokerIP1 to one that its clients reach"
    else:
        where = "If it runs, it tells an address that is not reached from here, as those of "
        where += "containers: set brokerIP1 to one that its clients reach"
    return Finding(
        REACHABLE,
        Severity.ERROR,
        str(broker),
        f"name servers say that it is at {broker.address}, which does not answer here: "
        f"{broker.error}",
        f"{where} (for clients on both sides, one address each: advertise, see docs/deploy.md), "
        f"and publish its listenPort as the same port, {port}. If it is down, start it",
    )


def _unanswering(broker: BrokerState) -> Finding:
    return Finding(
        REACHABLE,
        Severity.ERROR,
        str(broker),
        f"at its address {broker.address} connections are taken, and questions are not answered: "
        f"{broker.error}",
        "it hangs or is overloaded (see its log), or it is another server that listens there, or "
        "it asks for credentials (access control) that the caller has not",
    )


async def check_broker_permissions(state: ClusterState) -> list[Finding]:
    """Checks that brokers take sends and pulls at all (brokerPermission)."""
    found = []
    for broker in state.brokers:
        text = broker.settings.get("brokerPermission", "6")
        perm = int(text) if text.isdigit() else 6
        if is_readable(perm) and is_writable(perm):
            continue
        refused = "sends" if is_readable(perm) else "pulls" if is_writable(perm) else "everything"
        found.append(
            Finding(
                PERMISSIONS,
                Severity.WARNING,
                str(broker),
                f"brokerPermission is {perm} ({perm_text(perm)}): it refuses {refused}",
                f"if that is not wanted: pocketmq broker config set brokerPermission=6 "
                f"-b {broker.address}",
            )
        )
    return found


async def check_damage(state: ClusterState) -> list[Finding]:
    """Finds queues that a broker leaves out for damaged files; only PocketMQ's brokers tell."""
    return [
        Finding(
            DAMAGE,
            Severity.ERROR,
            str(broker),
            value,
            "stop the broker, look with `pocketmq store check DIR`, then `pocketmq store repair "
            "DIR`",
        )
        for broker in state.brokers
        for figure, value in sorted(broker.figures.items())
        if figure.startswith("damagedQueue_")
    ]


async def check_versions(state: ClusterState) -> list[Finding]:
    """Finds servers that are of different versions, or releases of PocketMQ."""
    found = _name_servers_that_differ(state)
    for cluster in sorted({broker.cluster for broker in state.brokers}):
        versions: dict[str, list[str]] = {}
        for broker in state.brokers:
            if broker.cluster == cluster and not broker.error:
                version = _version(broker)
                versions.setdefault(version, []).append(str(broker))
        if len(versions) > 1:
            texts = [f"{', '.join(names)}: {version}" for version, names in versions.items()]
            found.append(
                Finding(
                    VERSIONS,
                    Severity.NOTE,
                    cluster,
                    f"its brokers are of different versions ({'; '.join(sorted(texts))})",
                    "fine while they are upgraded one after the other; what only the newer ones "
                    "know works on a part of the queues",
                )
            )
    return found


def _name_servers_that_differ(state: ClusterState) -> list[Finding]:
    answering = [server for server in state.name_servers if not server.error]
    releases = {server.release for server in answering}
    if len(releases) < 2:
        return []
    texts = [
        f"{server.address}: "
        + (f"PocketMQ {server.release}" if server.release else "it does not tell its release")
        for server in answering
    ]
    return [
        Finding(
            VERSIONS,
            Severity.NOTE,
            "name servers",
            f"they are of different versions ({'; '.join(texts)})",
            "fine while they are upgraded one after the other, before the brokers",
        )
    ]


def _version(broker: BrokerState) -> str:
    if not broker.is_pocketmq:
        return broker.figures.get("brokerVersionDesc", "unknown")
    return f"PocketMQ {broker.figures.get(RELEASE_FIGURE, 'before 0.2.0')}"
