"""Checks the members of groups: equal subscriptions, and a queue for each member."""

from __future__ import annotations

from collections.abc import Mapping

from pocketmq.client.diagnosis.cluster_state import BrokerState, ClusterState
from pocketmq.client.diagnosis.findings import Finding, Severity
from pocketmq.client.diagnosis.groups import groups_of, members_of
from pocketmq.client.diagnosis.rounds import look_at_each
from pocketmq.protocol.bodies.clients import BROADCASTING, ClientConnection, ConsumerConnection
from pocketmq.protocol.bodies.groups import RunningInfo
from pocketmq.protocol.errors import OperatingError
from pocketmq.protocol.names.names import RETRY_PREFIX
from pocketmq.protocol.requests.groups import RunningInfoRequest

SUBSCRIPTIONS = "subscriptions"
IDLE = "idle members"

MEMBERS_MAX = 20
"""Members of a group that are asked for their subscriptions."""


async def check_subscriptions(state: ClusterState) -> list[Finding]:
    """Finds groups whose members subscribe differently, which loses messages in silence.

    PocketMQ's brokers compare the subscriptions; with Apache's brokers each member is asked.
    """

    async def differences(group: str) -> list[Finding]:
        for broker in state.masters:
            if group in broker.groups:
                members = await members_of(state, broker, group)
                sides = await _sides(state, broker, group, members)
                if len(sides) > 1:
                    return [_differing(group, sides)]
        return []

    return await look_at_each(state, SUBSCRIPTIONS, "groups", await groups_of(state), differences)


async def check_idle_members(state: ClusterState) -> list[Finding]:
    """Finds members without a queue: groups that have more members than the topic has queues."""

    async def idle(group: str) -> list[Finding]:
        return await _idle(state, group)

    return await look_at_each(state, IDLE, "groups", await groups_of(state), idle)


async def _idle(state: ClusterState, group: str) -> list[Finding]:
    clients: set[str] = set()
    topics: set[str] = set()
    for broker in state.masters:
        members = await members_of(state, broker, group)
        if members.message_model == BROADCASTING:
            return []
        clients.update(member.client_id for member in members.connection_set)
        topics.update(name for name in members.subscription_table if not is_retry(name))
    queues = {name: read_queues(state, name) for name in topics}
    widest = max(queues, key=lambda name: (queues[name], name), default=None)
    if widest is None or not 0 < queues[widest] < len(clients):
        return []
    return [_too_many(group, len(clients), widest, queues[widest], len(topics))]


def is_retry(topic: str) -> bool:
    """Tells whether a topic is a retry topic, which gives work to few members at most."""
    return topic.startswith(RETRY_PREFIX)


def read_queues(state: ClusterState, topic: str) -> int:
    """Returns the number of read queues of a topic on all brokers together."""
    configs = [broker.topics[topic] for broker in state.masters if topic in broker.topics]
    return sum(config.read_queue_nums for config in configs)


def _too_many(group: str, members: int, topic: str, queues: int, topics: int) -> Finding:
    more = ", and no other topic of theirs has more" if topics > 1 else ""
    return Finding(
        IDLE,
        Severity.NOTE,
        group,
        f"it has {members} members, and {topic} has {queues} queues{more}: at least "
        f"{members - queues} of them are given none and stand by",
        f"fine if they wait for others to fail. If all shall work, give the topic more queues on "
        f"each broker: pocketmq topic update {topic} --read-queues N --write-queues N",
    )


async def _sides(
    state: ClusterState, broker: BrokerState, group: str, members: ConsumerConnection
) -> dict[str, list[str]]:
    """Groups client ids by their subscription."""
    if broker.is_pocketmq:
        return {s.subscription: s.client_ids for s in members.subscription_conflict or ()}
    sides: dict[str, list[str]] = {}
    if len(members.connection_set) > 1:
        for member in members.connection_set[:MEMBERS_MAX]:
            if (text := await _subscription(state, broker, group, member)) is not None:
                sides.setdefault(text, []).append(member.client_id)
    return sides


async def _subscription(
    state: ClusterState, broker: BrokerState, group: str, member: ClientConnection
) -> str | None:
    """Asks a member for its subscriptions; None if it does not answer."""
    request = RunningInfoRequest(consumer_group=group, client_id=member.client_id)
    try:
        answer = await state.ask(broker.address, request)
    except OperatingError:  # gone meanwhile, or of a client that knows no such question
        return None
    texts = {
        f"{s.topic} {s.sub_string}"
        for s in RunningInfo.decode(answer.body).subscription_set
        if not s.topic.startswith(RETRY_PREFIX)
    }
    return ", ".join(sorted(texts))


def _differing(group: str, sides: Mapping[str, list[str]]) -> Finding:
    texts = [f"[{what}] by {', '.join(ids)}" for what, ids in sorted(sides.items())]
    return Finding(
        SUBSCRIPTIONS,
        Severity.ERROR,
        group,
        f"its members subscribe to different things: {'; '.join(texts)}. Queues are shared out as "
        f"if they were alike, so each loses what it is given and does not want",
        "give all members of the group the same topics and filters, or each kind a group of its "
        "own. While an upgrade rolls out this goes by itself",
    )
