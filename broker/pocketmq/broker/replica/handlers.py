"""What a follower answers: reads of what it shows, and whom to ask for everything else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Protocol

from pocketmq.broker.groups.client_calls import ClientCalls
from pocketmq.broker.handlers.administration.consumption import ConsumptionHandlers
from pocketmq.broker.handlers.administration.group_views import GroupViewHandlers
from pocketmq.broker.handlers.administration.relay import RelayHandlers
from pocketmq.broker.handlers.administration.settings import SettingHandlers
from pocketmq.broker.handlers.administration.statistics import StatisticsHandlers
from pocketmq.broker.handlers.administration.topic_views import TopicViewHandlers
from pocketmq.broker.handlers.consuming.clients import ClientHandlers
from pocketmq.broker.handlers.consuming.offsets import OffsetHandlers
from pocketmq.broker.handlers.consuming.pull import PullHandlers, PullSettings
from pocketmq.broker.handlers.consuming.queries import QueryHandlers
from pocketmq.broker.handlers.leader_guard import SENDS
from pocketmq.broker.name_limits import NameLimits
from pocketmq.broker.reading.filters import SelectionShare
from pocketmq.broker.reading.read_advice import FollowerAdvice, ReadAdviceSettings
from pocketmq.broker.refusals import rejected, unavailable
from pocketmq.broker.replica.parts import ReplicaParts
from pocketmq.broker.replica.replica_reader import ReplicaReader
from pocketmq.broker.statistics.runtime_info import RuntimeInfo
from pocketmq.broker.statistics.store_figures import StoreFigures
from pocketmq.broker.store.keys.key_search import KeySearch
from pocketmq.broker.topics.system_topics import system_topic_names
from pocketmq.protocol.codes import RequestCode as Code
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import response_error
from pocketmq.protocol.wire.command import Command
from pocketmq.transport.connection import UNKNOWN_CODE, Connection, Handler, Reply

PULLS = frozenset(
    {Code.PULL_MESSAGE, Code.LITE_PULL_MESSAGE, Code.BULK_PULL, Code.QUERY_CONSUMER_OFFSET}
)
"""Requests of consumers, which only a follower with slaveReadEnable answers.

The committed offset is among them: a follower that is cut off from its leader tells an old one.
"""

LOOKS = frozenset(
    {
        Code.QUERY_MESSAGE, Code.VIEW_MESSAGE_BY_ID, Code.QUERY_CONSUME_QUEUE,
        Code.SEARCH_OFFSET_BY_TIMESTAMP, Code.GET_MAX_OFFSET, Code.GET_MIN_OFFSET,
        Code.GET_EARLIEST_MSG_STORETIME, Code.GET_TOPIC_STATS_INFO, Code.GET_CONSUME_STATS,
        Code.GET_BROKER_CONSUME_STATS, Code.QUERY_CONSUME_TIME_SPAN, Code.QUERY_CORRECTION_OFFSET,
    }
)  # fmt: skip
"""Further requests whose answers tell what is in the logs."""

TABLES = frozenset(
    {
        Code.HEART_BEAT, Code.UNREGISTER_CLIENT, Code.CHECK_CLIENT_CONFIG,
        Code.GET_CONSUMER_LIST_BY_GROUP, Code.GET_CONSUMER_CONNECTION_LIST,
        Code.GET_PRODUCER_CONNECTION_LIST, Code.GET_ALL_PRODUCER_INFO,
        Code.GET_CONSUMER_RUNNING_INFO,
        Code.GET_ALL_CONSUMER_OFFSET,
        Code.GET_ALL_TOPIC_CONFIG, Code.GET_TOPIC_CONFIG, Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER,
        Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, Code.GET_SUBSCRIPTIONGROUP_CONFIG,
        Code.QUERY_TOPIC_CONSUME_BY_WHO, Code.QUERY_TOPICS_BY_CONSUMER,
        Code.QUERY_SUBSCRIPTION_BY_CONSUMER,
        Code.GET_BROKER_CONFIG, Code.GET_BROKER_RUNTIME_INFO, Code.VIEW_BROKER_STATS_DATA,
    }
)  # fmt: skip
"""Requests that a follower answers from its tables, whether or not it has caught up."""


class Leadership(Protocol):
    """What handlers of a follower ask about its leader."""

    @property
    def is_readable(self) -> bool:
        """Whether the follower shows nothing that a failover could take away."""

    @property
    def has_leader(self) -> bool:
        """Whether the leader is known and reached."""

    @property
    def leader_text(self) -> str:
        """Names the leader, for people."""


def replica_table(
    parts: ReplicaParts,
    address: str,
    member_id: int,
    leadership: Leadership,
    of_set: Mapping[int, Handler],
) -> dict[int, Handler]:
    """Builds what a follower answers, by request code.

    Args:
        parts: what the handlers work with.
        address: the address that clients use, ``host:port``.
        member_id: of the follower.
        leadership: what it knows of its leader.
        of_set: handlers about the broker set.
    """
    settings = parts.data.settings
    read = _of_messages(parts, address, member_id, leadership)

    def refuse(_: Command, __: Connection) -> Command:
        raise unavailable(f"this member of the broker set follows; {leadership.leader_text} leads")

    def refuse_send(_: Command, __: Connection) -> Command:
        raise rejected(f"this member of the broker set follows; {leadership.leader_text} leads")

    def refuse_end(_: Command, __: Connection) -> Command:
        raise response_error(
            ResponseCode.SLAVE_NOT_AVAILABLE,
            f"transactions end at the leader of the broker set: {leadership.leader_text}",
        )

    def of_pulls() -> None:
        if not settings.now.slave_read_enable:
            raise rejected("this member of the broker set follows, and slaveReadEnable is off")
        if not leadership.is_readable:
            raise rejected("this member of the broker set has not caught up with a leader yet")

    def of_looks() -> None:
        if not leadership.is_readable:
            raise unavailable("this member of the broker set has not caught up with a leader yet")

    table: dict[int, Handler] = {code: read[code] for code in TABLES}
    table.update({code: _checked(of_pulls, read[code]) for code in PULLS})
    table.update({code: _checked(of_looks, read[code]) for code in LOOKS})
    table.update(dict.fromkeys(SENDS, refuse_send))
    table[Code.END_TRANSACTION] = refuse_end
    return {**dict.fromkeys(Code, refuse), UNKNOWN_CODE: refuse, **table, **of_set}


def _checked(check: Callable[[], object], handler: Handler) -> Handler:
    @wraps(handler)
    def checked_handler(command: Command, connection: Connection) -> Reply:
        check()
        return handler(command, connection)

    return checked_handler


def _of_messages(
    parts: ReplicaParts, address: str, member_id: int, leadership: Leadership
) -> dict[int, Handler]:
    data, store, clock, members = parts.data, parts.store, parts.clock, parts.members
    settings, topics, groups, offsets = data.settings, data.topics, data.groups, data.offsets
    name, consumers, selections = (
        settings.now.broker_name,
        members.consumers,
        SelectionShare(parts.work_share),
    )
    reader = ReplicaReader(
        store, clock, offsets, parts.progress, parts.work_share, parts.catch_up,
        settings=settings, has_leader=lambda: leadership.has_leader,
    )  # fmt: skip
    figures = StoreFigures(store.logs, store.disk, store.files, store.committer, store.damaged)
    runtime_info = RuntimeInfo(
        figures, parts.disk_forecast, None, parts.polling, store.counters, parts.statistics,
        parts.back_pressure, parts.rate_limits, clock,
    )  # fmt: skip
    families = (
        PullHandlers(
            topics, groups, offsets, consumers, store, store.counters, reader, parts.progress,
            parts.polling, selections, settings.view(PullSettings.of),
            FollowerAdvice(settings.view(ReadAdviceSettings.of), member_id),
        ),
        QueryHandlers(store, KeySearch(store, parts.keys), consumers),
        ClientHandlers(
            topics, groups, members.producers, consumers, clock, selections,
            settings.view(lambda config: config.enable_property_filter),
            settings.view(NameLimits.of),
        ),
        OffsetHandlers(topics, groups, offsets, store),
        TopicViewHandlers(
            name, system_topic_names(settings.now.broker_cluster_name, name), topics, store,
            store.counters, store.damaged, clock,
        ),
        GroupViewHandlers(groups, clock),
        ConsumptionHandlers(
            name, address, topics, groups, offsets, consumers, store, parts.progress, clock
        ),
        RelayHandlers(name, topics, groups, store, ClientCalls(consumers)),
        StatisticsHandlers(runtime_info, parts.statistics, None),
        SettingHandlers(settings),
    )  # fmt: skip
    return {code: handler for family in families for code, handler in family.table().items()}
