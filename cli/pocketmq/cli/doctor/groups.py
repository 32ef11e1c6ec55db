"""Groups: members that differ, consumers that are gone, behind, or not allowed."""

from __future__ import annotations

from collections.abc import Mapping

from pocketmq.cli.doctor.cluster_state import BrokerState, ClusterState
from pocketmq.cli.doctor.findings import Finding, Severity
from pocketmq.protocol.bodies.clients import ClientConnection, ConsumerConnection
from pocketmq.protocol.bodies.groups import RunningInfo
from pocketmq.protocol.bodies.topics import (
    ConsumeStats,
    OffsetWrapper,
    QueueKey,
    TopicOffset,
    TopicStatsTable,
)
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import OperatingError, ResponseError
from pocketmq.protocol.names import RETRY_PREFIX
from pocketmq.protocol.requests.clients import ConsumerConnectionsRequest
from pocketmq.protocol.requests.groups import RunningInfoRequest
from pocketmq.protocol.requests.topics import ConsumeStatsRequest, TopicStatsRequest

SUBSCRIPTIONS = "subscriptions"
LAG = "lag"

STUCK_MS = 300_000
"""So long a queue's newest message may wait."""

GROUPS_MAX = 500
"""Groups of a broker that are looked at."""

MEMBERS_MAX = 20
"""Members of a group that are asked what they subscribe to."""


async def check_subscriptions(state: ClusterState) -> list[Finding]:
    """Members of a group must subscribe alike: else messages are lost for some, in silence.

    PocketMQ's brokers compare them; with Apache's each member is asked.
    """
    found: dict[str, Finding] = {}
    for broker in state.masters:
        for group in sorted(broker.groups)[:GROUPS_MAX]:
            members = await members_of(state, broker, group)
            sides = await _sides(state, broker, group, members)
            if len(sides) > 1 and group not in found:
                found[group] = _differing(group, sides)
    return list(found.values())


async def members_of(state: ClusterState, broker: BrokerState, group: str) -> ConsumerConnection:
    """Who of a group is connected to a broker."""
    request = ConsumerConnectionsRequest(consumer_group=group)
    try:
        return ConsumerConnection.decode((await state.ask(broker.address, request)).body)
    except ResponseError as e:
        if e.code != ResponseCode.CONSUMER_NOT_ONLINE:
            raise
        return ConsumerConnection()


async def _sides(
    state: ClusterState, broker: BrokerState, group: str, members: ConsumerConnection
) -> dict[str, list[str]]:
    """Client ids by what they subscribe to."""
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
    """What a member says it subscribes to; None if it does not answer."""
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


async def check_groups(state: ClusterState) -> list[Finding]:
    """Groups that may not consume, whose consumers are gone, or that are far behind or stuck."""
    found: dict[str, Finding] = {}
    for broker in state.masters:
        for group, config in sorted(broker.groups.items())[:GROUPS_MAX]:
            if not config.consume_enable:
                found.setdefault(group, _disabled(group))
            stats = await state.ask(broker.address, ConsumeStatsRequest(consumer_group=group))
            offsets = ConsumeStats.decode(stats.body).offset_table
            if state.topic is not None:
                offsets = {key: at for key, at in offsets.items() if key.topic == state.topic}
            behind = {k: at for k, at in offsets.items() if at.broker_offset > at.consumer_offset}
            if behind and group not in found:
                is_there = any([(await members_of(state, b, group)).connection_set
                                for b in state.masters])  # fmt: skip
                if not is_there:
                    found[group] = _gone(group, broker, behind)
                elif finding := await _late(state, broker, group, behind):
                    found[group] = finding
    return list(found.values())


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
    """The queues in which all that is unread is old."""
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
