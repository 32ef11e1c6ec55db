"""Runs all checks, one after the other, on one state of the cluster."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import msgspec

from pocketmq.client.credentials import default_credentials, signing
from pocketmq.client.diagnosis.backlog import DEAD_LETTERS, TIMERS, check_dead_letters, check_timers
from pocketmq.client.diagnosis.broker_sets import SETS, check_broker_sets
from pocketmq.client.diagnosis.brokers import (
    DAMAGE,
    REACHABLE,
    VERSIONS,
    check_addresses,
    check_broker_permissions,
    check_damage,
    check_versions,
)
from pocketmq.client.diagnosis.brokers import PERMISSIONS as BROKER_PERMISSIONS
from pocketmq.client.diagnosis.certificates import CERTIFICATES, check_certificates
from pocketmq.client.diagnosis.clocks import CLOCKS, check_clocks
from pocketmq.client.diagnosis.cluster_state import COUNT_MAX, ClusterState, look_at
from pocketmq.client.diagnosis.disks import DISKS, check_disks
from pocketmq.client.diagnosis.findings import DOCTOR, Finding, Severity, unfinished
from pocketmq.client.diagnosis.groups import LAG, check_groups
from pocketmq.client.diagnosis.grpc_endpoints import ENDPOINTS, check_grpc_endpoints
from pocketmq.client.diagnosis.members import (
    IDLE,
    SUBSCRIPTIONS,
    check_idle_members,
    check_subscriptions,
)
from pocketmq.client.diagnosis.name_servers import REACHABLE as NAME_SERVERS
from pocketmq.client.diagnosis.name_servers import (
    REGISTERED,
    check_name_servers,
    check_registration,
)
from pocketmq.client.diagnosis.topics import (
    PERMISSIONS,
    QUEUES,
    ROUTES,
    check_queue_counts,
    check_routes,
    check_topic_permissions,
)
from pocketmq.client.tls import default_tls
from pocketmq.protocol.errors import OperatingError, PeerError
from pocketmq.runtime.clock import Clock
from pocketmq.transport.pool import ConnectionPool

CONNECT_TIMEOUT_MS = 3_000

Check = Callable[[ClusterState], Awaitable[list[Finding]]]

CHECKS: dict[str, Check] = {
    NAME_SERVERS: check_name_servers,
    REGISTERED: check_registration,
    REACHABLE: check_addresses,
    ENDPOINTS: check_grpc_endpoints,
    CLOCKS: check_clocks,
    CERTIFICATES: check_certificates,
    DISKS: check_disks,
    DAMAGE: check_damage,
    SETS: check_broker_sets,
    BROKER_PERMISSIONS: check_broker_permissions,
    ROUTES: check_routes,
    PERMISSIONS: check_topic_permissions,
    QUEUES: check_queue_counts,
    SUBSCRIPTIONS: check_subscriptions,
    IDLE: check_idle_members,
    LAG: check_groups,
    DEAD_LETTERS: check_dead_letters,
    TIMERS: check_timers,
    VERSIONS: check_versions,
}
"""Checks by name, in the order in which one cause hides the next."""


class Report(msgspec.Struct, rename="camel"):
    """The result of an examination.

    Attributes:
        namesrv: the name servers that were asked.
        namesrv_releases: their releases of PocketMQ by address; None for one that tells none.
        origin: the option or setting that named them.
        healthy: all findings are notes.
        can_check: a name server answered.
        brokers, topics, groups: their numbers.
        checks: the names of the checks that ran.
        findings: the worst first.
    """

    namesrv: list[str]
    namesrv_releases: dict[str, str | None]
    origin: str
    healthy: bool
    can_check: bool
    brokers: int
    topics: int
    groups: int
    checks: list[str]
    findings: list[Finding]


async def examine(
    namesrvs: Sequence[str],
    clock: Clock,
    *,
    origin: str = "",
    topic: str | None = None,
    lag_max: int = 10_000,
    count_max: int = COUNT_MAX,
) -> Report:
    """Examines a cluster.

    Args:
        namesrvs: addresses of the name servers.
        clock: the caller's time.
        origin: the option or setting that named the name servers, for the report.
        topic: the only topic to examine.
        lag_max: messages that a group may be behind.
        count_max: topics, and groups, that are examined one by one.
    """
    pool = ConnectionPool(
        clock,
        connect_timeout_ms=CONNECT_TIMEOUT_MS,
        before_request=signing(default_credentials()),
        tls=default_tls(),
    )
    try:
        state = await look_at(pool, namesrvs, clock)
        state.topic, state.lag_max, state.count_max = topic, lag_max, count_max
        findings = []
        for name, check in CHECKS.items():
            try:
                findings += await check(state)
            except (OperatingError, PeerError) as e:
                findings.append(unfinished(name, DOCTOR, e))
    finally:
        await pool.close()
    order = list(Severity)
    return Report(
        namesrv=list(namesrvs),
        namesrv_releases={server.address: server.release for server in state.name_servers},
        origin=origin,
        healthy=all(finding.severity is Severity.NOTE for finding in findings),
        can_check=any(not server.error for server in state.name_servers),
        brokers=len(state.brokers),
        topics=len({name for broker in state.masters for name in broker.topics}),
        groups=len({name for broker in state.masters for name in broker.groups}),
        checks=list(CHECKS),
        findings=sorted(findings, key=lambda finding: order.index(finding.severity)),
    )
