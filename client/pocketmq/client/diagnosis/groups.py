"""Checks groups: consumers that are gone, behind, or not allowed to consume."""

from __future__ import annotations

from collections.abc import Mapping

from pocketmq.client.diagnosis.cluster_state import BrokerState, ClusterState
from pocketmq.client.diagnosis.findings import Finding, Severity
from pocketmq.client.diagnosis.rounds import look_at_each
from pocketmq.protocol.bodies.clients import ConsumerConnection
from pocketmq.protocol.bodies.groups import GroupList
from pocketmq.protocol.bodies.topics import (
    ConsumeStats,
    OffsetWrapper,
    QueueKey,
    TopicOffset,
    TopicStatsTable,
)
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import ResponseError
from pocketmq.protocol.requests.clients import ConsumerConnectionsRequest
from pocketmq.protocol.requests.groups import TopicGroupsRequest
from pocketmq.protocol.requests.topics import ConsumeStatsRequest, TopicStatsRequest

LAG = "lag"

STUCK_MS = 300_000
"""Time that the newest message of a queue may wait."""


async def groups_of(state: ClusterState) -> list[str]:
    """Returns the groups to examine: all groups, or those of the topic."""
    if state.topic is None:
        return sorted({name for broker in state.masters for name in broker.groups})
    found: set[str] = set()
    for broker in state.masters:
        if state.topic in broker.topics:
            answer = await state.ask(broker.address, TopicGroupsRequest(topic=state.topic))
            found |= broker.groups.keys() & GroupList.decode(answer.body).group_list
    return sorted(found)


async def members_of(state: ClusterState, broker: BrokerState, group: str) -> ConsumerConnection:
    """Returns the members of a group that are connected to a broker."""
    request = ConsumerConnectionsRequest(consumer_group=group)
    try:
        return ConsumerConnection.decode((await state.ask(broker.address, request)).body)
    except ResponseError as e:
        if e.code != ResponseCode.CONSUMER_NOT_ONLINE:
            raise
        return ConsumerConnection()


async def check_groups(state: ClusterState) -> list[Finding]:
    """Finds groups that may not consume, have no consumers, or are far behind or stuck."""

    async def lag(group: str) -> list[Finding]:
        return await _lag(state, group)

    return await look_at_each(state, LAG, "groups", await groups_of(state), lag)


async def _lag(state: ClusterState, group: str) -> list[Finding]:
    """Returns the first finding of a group on any broker; one cause shows on all brokers."""
    brokers = [broker for broker in state.masters if group in broker.groups]
    if not all(broker.groups[group].consume_enable for broker in brokers):
        return [_disabled(group)]
    for broker in brokers:
        stats = await state.ask(broker.address, ConsumeStatsRequest(consumer_group=group))
        offsets = ConsumeStats.decode(stats.body).offset_table
        if state.topic is not None:
            offsets = {key: at for key, at in offsets.items() if key.topic == state.topic}
        behind = {k: at for k, at in offsets.items() if at.broker_offset > at.consumer_offset}
        if not behind:
            continue
        if not any([(await members_of(state, b, group)).connection_set for b in state.masters]):
            return [_gone(group, broker, behind)]
        if finding := await _late(state, broker, group, behind):
            return [finding]
    return []


def _disabled(group: str) -> Finding:
    return Finding(
        LAG,
        Severity.WARNING,
        group,
        "the group may not consume: its pulls are refused",
        f"if that is not wanted: pocketmq group update {group} --consume",
    )


def _gone(group: str, broker: BrokerState, behind: Mapping[QueueKey, OffsetWrapper]) -> Finding:
    return Finding(
        LAG,
        Severity.WARNING,
        group,
        f"no consumer of the group is connected, and {_count(behind)} messages wait for it on "
        f"{broker} in {_topics(behind)}",
        f"start its consumers; if it is not wanted any more: pocketmq group delete {group} "
        f"--clean-offsets",
    )


async def _late(
    state: ClusterState, broker: BrokerState, group: str, behind: Mapping[QueueKey, OffsetWrapper]
) -> Finding | None:
    more = (
        f"see with `pocketmq group lag {group}` whether all queues are behind (too few consumers: "
        f"at most one a queue works, so perhaps more queues too; or each message takes too long), "
        f"or a few (a message that its listener cannot finish, or a consumer that hangs)"
    )
    stuck = await _stuck(state, broker, behind)
    if stuck:
        seen = (
            f"queues {', '.join(stuck)} are stuck: even their newest message has waited for more "
            f"than {STUCK_MS // 60_000} minutes"
        )
        return Finding(LAG, Severity.WARNING, group, seen, more)
    if (count := _count(behind)) > state.lag_max:
        seen = f"it is {count} messages behind on {broker} in {_topics(behind)}"
        return Finding(LAG, Severity.WARNING, group, seen, more)
    return None


async def _stuck(
    state: ClusterState, broker: BrokerState, behind: Mapping[QueueKey, OffsetWrapper]
) -> list[str]:
    """Returns the queues in which all unread messages are old."""
    newest: dict[QueueKey, TopicOffset] = {}
    for topic in {key.topic for key in behind}:
        answer = await state.ask(broker.address, TopicStatsRequest(topic=topic))
        newest.update(TopicStatsTable.decode(answer.body).offset_table)
    now_ms = broker.now_ms or broker.answered_ms
    return sorted(
        f"{key.topic}/{key.broker_name}/{key.queue_id}"
        for key in behind
        if key in newest and now_ms - newest[key].last_update_timestamp > STUCK_MS
    )


def _count(behind: Mapping[QueueKey, OffsetWrapper]) -> int:
    return sum(at.broker_offset - at.consumer_offset for at in behind.values())


def _topics(behind: Mapping[QueueKey, OffsetWrapper]) -> str:
    return ", ".join(sorted({key.topic for key in behind}))
