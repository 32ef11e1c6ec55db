"""The operations on consumer groups."""

from __future__ import annotations

from collections.abc import Iterable

from pocketmq.client import Admin
from pocketmq.client.admin.results import QueueLag as Lag
from pocketmq.client.errors import UnknownTopicError
from pocketmq.console.api.bodies.groups import (
    Conflict,
    Group,
    GroupListQuery,
    Groups,
    Member,
    QueueLag,
    Subscription,
)
from pocketmq.console.api.callers import Callers, Clients
from pocketmq.console.api.names import part_of
from pocketmq.console.api.paths import PREFIX
from pocketmq.console.web.operations import Call, Operation
from pocketmq.console.web.problems import not_found
from pocketmq.protocol.bodies.clients import ConsumerConnection
from pocketmq.protocol.errors import GroupMissingError
from pocketmq.protocol.names.names import BUILT_IN_GROUPS, RETRY_PREFIX, dlq_topic
from pocketmq.runtime.clock import Clock


class GroupCalls:
    """Lists and shows consumer groups.

    Args:
        callers: their clients.
        clock: tells how long messages wait.
    """

    def __init__(self, callers: Callers, clock: Clock) -> None:
        self._callers, self._clock = callers, clock

    def operations(self) -> list[Operation]:
        """Returns the operations of this family."""
        serve = self._callers.serve
        one = f"{PREFIX}/groups/{{group}}"
        return [
            Operation(
                "GET", f"{PREFIX}/groups", "listGroups", "Consumer groups by name.",
                serve(self.listed), Groups, query=GroupListQuery,
            ),
            Operation(
                "GET", one, "getGroup",
                "A group with its members, subscriptions, conflicts and lag.",
                serve(self.one), Group,
            ),
        ]  # fmt: skip

    async def listed(self, clients: Clients, call: Call) -> Groups:
        """Lists groups."""
        admin = clients.admin
        query, names = call.query, await admin.groups()
        shown = [name for name in names if query.built_in or name not in BUILT_IN_GROUPS]
        total, part, behind = part_of(shown, query)
        return Groups(total=total, groups=part, next=behind)

    async def one(self, clients: Clients, call: Call) -> Group:
        """Shows a group."""
        name = call.path["group"]
        admin = clients.admin
        try:
            configs = await admin.group_configs(name)
        except GroupMissingError as e:
            raise not_found("group", name, f"GET {PREFIX}/groups") from e
        found = list((await admin.consumers(name)).values())
        lags = await admin.consume_stats(name)
        config = next(iter(configs.values()))
        return Group(
            name=name,
            may_consume=all(each.consume_enable for each in configs.values()),
            retry_max_times=config.retry_max_times,
            model=found[0].message_model if found else None,
            members=_members(found),
            subscriptions=_subscriptions(found),
            conflicts=_conflicts(found),
            left=sum(lag.lag for lag in lags),
            dead_letters=await _count(admin, dlq_topic(name)),
            queues=[self._lag(lag) for lag in lags],
        )

    def _lag(self, lag: Lag) -> QueueLag:
        waited_ms = max(self._clock.now_ms() - lag.last_timestamp_ms, 0)
        return QueueLag(
            topic=lag.queue.topic,
            broker=lag.queue.broker_name,
            queue=lag.queue.queue_id,
            committed=lag.consumer_offset,
            end=lag.broker_offset,
            left=lag.lag,
            in_flight=lag.inflight,
            behind_ms=waited_ms if lag.lag > 0 and lag.last_timestamp_ms > 0 else None,
        )


def _members(found: Iterable[ConsumerConnection]) -> list[Member]:
    members = {
        each.client_id: Member(
            client_id=each.client_id,
            address=each.client_addr,
            language=each.language,
            version=each.version,
        )
        for connections in found
        for each in connections.connection_set
    }
    return [members[client_id] for client_id in sorted(members)]


def _subscriptions(found: Iterable[ConsumerConnection]) -> list[Subscription]:
    shown = {
        topic: Subscription(
            topic=topic,
            expression=each.sub_string,
            type=each.expression_type or "TAG",
        )
        for connections in found
        for topic, each in connections.subscription_table.items()
        if not topic.startswith(RETRY_PREFIX)
    }
    return [shown[topic] for topic in sorted(shown)]


def _conflicts(found: Iterable[ConsumerConnection]) -> list[Conflict]:
    sides: dict[str, set[str]] = {}
    for connections in found:
        for side in connections.subscription_conflict or ():
            sides.setdefault(side.subscription, set()).update(side.client_ids)
    return [Conflict(subscription=text, members=sorted(ids)) for text, ids in sorted(sides.items())]


async def _count(admin: Admin, topic: str) -> int:
    try:
        return sum(row.count for row in await admin.topic_stats(topic))
    except UnknownTopicError:
        return 0
