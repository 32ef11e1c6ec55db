"""Checks topics: routes, permissions, and queues that nobody reads."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from pocketmq.client.diagnosis.cluster_state import BrokerState, ClusterState
from pocketmq.client.diagnosis.findings import Finding, Severity
from pocketmq.client.diagnosis.rounds import look_at_each
from pocketmq.protocol.bodies.routes import TopicRoute
from pocketmq.protocol.bodies.topics import TopicConfig, TopicStatsTable
from pocketmq.protocol.errors import TopicMissingError
from pocketmq.protocol.flags import is_readable, is_writable, perm_text
from pocketmq.protocol.names.names import DLQ_PREFIX, RETRY_PREFIX
from pocketmq.protocol.requests.nameserver import RouteRequest
from pocketmq.protocol.requests.topics import TopicStatsRequest

ROUTES = "topic routes"
PERMISSIONS = "topic permissions"
QUEUES = "queue counts"


def chosen(state: ClusterState, broker: BrokerState) -> Mapping[str, TopicConfig]:
    """Returns the topics of a broker to examine, without those of groups."""
    return {
        name: config
        for name, config in broker.topics.items()
        if (state.topic is None or name == state.topic)
        and not name.startswith((RETRY_PREFIX, DLQ_PREFIX))
    }


async def check_routes(state: ClusterState) -> list[Finding]:
    """Checks the route of the examined topic at each name server."""
    if state.topic is None:
        return []
    unknown, routes = [], {}
    for server in state.name_servers:
        if server.error:
            continue
        request = RouteRequest(topic=state.topic, accept_standard_json_only=True)
        try:
            answer = await state.ask(server.address, request)
        except TopicMissingError:
            unknown.append(server.address)
        else:
            routes[server.address] = TopicRoute.decode(answer.body)
    if not routes:
        return [_missing(state, state.topic)]
    found = [
        Finding(
            ROUTES,
            Severity.ERROR,
            state.topic,
            f"the name server {address} does not know the topic, others do",
            "have its brokers' namesrvAddr name all name servers; one that was just started knows "
            "it after the next registration, at most 30 s later",
        )
        for address in unknown
    ]
    return [*found, *_partial(state, state.topic), *_withheld(state, state.topic, routes)]


def _missing(state: ClusterState, topic: str) -> Finding:
    known = sorted({name for broker in state.masters for name in broker.topics})
    near = difflib.get_close_matches(topic, known, 1)
    inside = [name for name in known if name.endswith(f"%{topic}")]
    hint = f"; did you mean {(inside or near)[0]}?" if inside or near else ""
    can_make = any(b.settings.get("autoCreateTopicEnable") == "true" for b in state.masters)
    made = ", or send to it: the first send makes it" if can_make else ""
    return Finding(
        ROUTES,
        Severity.ERROR,
        topic,
        f"no name server knows the topic{hint}",
        f"pocketmq topic create {topic}{made}",
    )


def _partial(state: ClusterState, topic: str) -> list[Finding]:
    without = [str(broker) for broker in state.masters if topic not in broker.topics]
    if not without or len(without) == len(state.masters):
        return []
    seen = f"it is on {len(state.masters) - len(without)} of {len(state.masters)} brokers, not on "
    return [
        Finding(
            ROUTES,
            Severity.NOTE,
            topic,
            seen + ", ".join(without),
            f"if all should share its load: pocketmq topic create {topic}, which leaves those "
            f"that have it as they are if the counts of queues are the same",
        )
    ]


def _withheld(state: ClusterState, topic: str, routes: Mapping[str, TopicRoute]) -> list[Finding]:
    """Finds name servers that keep writers away from a broker (mqadmin wipeWritePerm)."""
    own = {b.name: b.topics[topic].perm for b in state.masters if topic in b.topics}
    return [
        Finding(
            PERMISSIONS,
            Severity.WARNING,
            topic,
            f"the name server {address} keeps senders away from {queues.broker_name} "
            f"({perm_text(queues.perm)}; the broker says {perm_text(own[queues.broker_name])})",
            f"somebody took its write permission: mqadmin addWritePerm -n {address} "
            f"-b {queues.broker_name}, or `Admin.add_write_perm`",
        )
        for address, route in routes.items()
        for queues in route.queue_datas
        if is_writable(own.get(queues.broker_name, 0)) and not is_writable(queues.perm)
    ]


async def check_topic_permissions(state: ClusterState) -> list[Finding]:
    """Finds topics that cannot be written or read on a broker."""
    found = []
    for broker in state.masters:
        for name, config in sorted(chosen(state, broker).items()):
            if is_readable(config.perm) and is_writable(config.perm):
                continue
            missing = [
                what
                for what, allowed in (
                    ("written", is_writable(config.perm)),
                    ("read", is_readable(config.perm)),
                )
                if not allowed
            ]
            found.append(
                Finding(
                    PERMISSIONS,
                    Severity.WARNING,
                    name,
                    f"on {broker} it cannot be {' or '.join(missing)} ({perm_text(config.perm)})",
                    f"if that is not wanted: pocketmq topic update {name} --perm rw",
                )
            )
    return found


async def check_queue_counts(state: ClusterState) -> list[Finding]:
    """Finds queues that producers fill and nobody reads, also those that a shrunk topic left."""
    topics = {str(broker): chosen(state, broker) for broker in state.masters}
    found = [
        _unread(broker, name, config)
        for broker in state.masters
        for name, config in sorted(topics[str(broker)].items())
        if config.write_queue_nums > config.read_queue_nums
    ]

    async def left_behind(name: str) -> list[Finding]:
        left = []
        for broker in state.masters:
            if config := topics[str(broker)].get(name):
                left += await _left_behind(state, broker, name, config.queue_nums_max)
        return left

    names = sorted({name for some in topics.values() for name in some})
    return found + await look_at_each(state, QUEUES, "topics", names, left_behind)


def _unread(broker: BrokerState, name: str, config: TopicConfig) -> Finding:
    read, write = config.read_queue_nums, config.write_queue_nums
    return Finding(
        QUEUES,
        Severity.ERROR,
        name,
        f"on {broker} it has {write} write queues and {read} read queues: what is sent to queues "
        f"{read} to {write - 1} reaches no consumer",
        f"pocketmq topic update {name} --read-queues {write}",
    )


async def _left_behind(
    state: ClusterState, broker: BrokerState, name: str, queues: int
) -> list[Finding]:
    answer = await state.ask(broker.address, TopicStatsRequest(topic=name))
    left = {
        key.queue_id: queue.max_offset - queue.min_offset
        for key, queue in TopicStatsTable.decode(answer.body).offset_table.items()
        if key.queue_id >= queues and queue.max_offset > queue.min_offset
    }
    if not left:
        return []
    return [
        Finding(
            QUEUES,
            Severity.WARNING,
            name,
            f"{sum(left.values())} messages on {broker} are in queues that it no longer has "
            f"({', '.join(map(str, sorted(left)))}): no consumer gets them, and retention will "
            f"take them",
            f"pocketmq topic update {name} --read-queues {max(left) + 1}, wait until `pocketmq "
            f"topic show {name}` has nothing unread there, and lower it again",
        )
    ]
