"""The table of a broker's handlers, each built from the parts that it works with."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from pocketmq.auth.audit_log.audit import Audit
from pocketmq.auth.guard import Guard as AccessGuard
from pocketmq.broker.backup.source import BackupSource
from pocketmq.broker.config.live_settings import LiveSettings
from pocketmq.broker.groups.client_calls import ClientCalls
from pocketmq.broker.handlers.administration.backups import BackupHandlers
from pocketmq.broker.handlers.administration.cleaning import CleaningHandlers
from pocketmq.broker.handlers.administration.consumption import ConsumptionHandlers
from pocketmq.broker.handlers.administration.group_views import GroupViewHandlers
from pocketmq.broker.handlers.administration.groups import GroupHandlers
from pocketmq.broker.handlers.administration.redrives import RedriveHandlers
from pocketmq.broker.handlers.administration.relay import RelayHandlers
from pocketmq.broker.handlers.administration.resets import ResetHandlers
from pocketmq.broker.handlers.administration.settings import SettingHandlers
from pocketmq.broker.handlers.administration.statistics import StatisticsHandlers
from pocketmq.broker.handlers.administration.topic_figures import TopicFigureHandlers
from pocketmq.broker.handlers.administration.topic_views import TopicViewHandlers
from pocketmq.broker.handlers.administration.topics import TopicHandlers
from pocketmq.broker.handlers.administration.users import UserHandlers, UserTableHandler
from pocketmq.broker.handlers.audited import audited
from pocketmq.broker.handlers.consuming.clients import ClientHandlers
from pocketmq.broker.handlers.consuming.offsets import OffsetHandlers
from pocketmq.broker.handlers.consuming.order_locks import OrderLockHandlers
from pocketmq.broker.handlers.consuming.pull import PullHandlers, PullSettings
from pocketmq.broker.handlers.consuming.queries import QueryHandlers
from pocketmq.broker.handlers.leader_guard import LeaderGuard
from pocketmq.broker.handlers.popping.acks import AckHandlers
from pocketmq.broker.handlers.popping.assignments import AssignmentHandlers, AssignmentSettings
from pocketmq.broker.handlers.popping.checks import PopChecks, PopCheckSettings
from pocketmq.broker.handlers.popping.in_flight import InFlightHandlers
from pocketmq.broker.handlers.popping.notifications import NotificationHandlers
from pocketmq.broker.handlers.popping.pop import PopHandlers
from pocketmq.broker.handlers.replication.ha_status import LoneStatusHandlers
from pocketmq.broker.handlers.sending.answers import SendAnswers
from pocketmq.broker.handlers.sending.bulk import BulkHandlers
from pocketmq.broker.handlers.sending.delayed_sends import DelayedSends
from pocketmq.broker.handlers.sending.half_sends import HalfSends
from pocketmq.broker.handlers.sending.long_batches import LongBatches
from pocketmq.broker.handlers.sending.recalls import RecallHandlers, RecallSettings
from pocketmq.broker.handlers.sending.replies import ReplyHandlers, ReplySettings
from pocketmq.broker.handlers.sending.retried_sends import RetriedSends
from pocketmq.broker.handlers.sending.retries import RetryHandlers
from pocketmq.broker.handlers.sending.send import SendHandlers
from pocketmq.broker.handlers.sending.send_checks import SendChecks, SendSettings
from pocketmq.broker.handlers.sending.send_properties import SendProperties
from pocketmq.broker.handlers.sending.send_targets import SendTargets
from pocketmq.broker.handlers.sending.transactions import TransactionHandlers, TransactionSettings
from pocketmq.broker.handlers.unsupported import UNSUPPORTED
from pocketmq.broker.idle_groups import GROUPS_PER_SLICE
from pocketmq.broker.name_limits import NameLimits
from pocketmq.broker.parts import BrokerParts
from pocketmq.broker.popping.deletions import PopDeletions
from pocketmq.broker.popping.taking import Taking, TakingSettings
from pocketmq.broker.reading.filters import SelectionShare
from pocketmq.broker.reading.read_advice import LeaderAdvice, ReadAdviceSettings
from pocketmq.broker.reading.reader import Reader
from pocketmq.broker.redrive.redrives import Redrives
from pocketmq.broker.registration.routes import TopicRoutes
from pocketmq.broker.registration.telling import UserTelling
from pocketmq.broker.replication.leading import Leading
from pocketmq.broker.statistics.runtime_info import RuntimeInfo
from pocketmq.broker.statistics.store_figures import StoreFigures
from pocketmq.broker.store.keys.key_search import KeySearch
from pocketmq.broker.topics.system_topics import system_topic_names
from pocketmq.broker.turn_share import TurnShare
from pocketmq.protocol.codes import RequestCode
from pocketmq.runtime.slices import next_slice
from pocketmq.transport.connection import Handler
from pocketmq.transport.unsupported import unsupported_handlers

Guard = Callable[[int, Handler], Handler]
"""Stands before the handlers: takes a request code and its handler, returns the guarded handler."""

VIEW_CODES = frozenset(
    {RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.BULK_APPEND}
)
"""Requests whose handlers take a `memoryview` as the body: what is large is written as it came."""


class Family(Protocol):
    """A class of handlers that belong together."""

    def table(self) -> dict[int, Handler]:
        """The handlers by request code."""


class Tables(NamedTuple):
    """The handlers of a broker by request code.

    Attributes:
        outer: for requests that say by themselves who asks.
        inner: for those whose user the broker knows already, as of gRPC calls.
    """

    outer: dict[int, Handler]
    inner: dict[int, Handler]


def handler_table(
    parts: BrokerParts,
    address: str,
    store_host: bytes,
    routes: TopicRoutes,
    redrives: Redrives,
    access: AccessGuard | None = None,
    audit: Audit | None = None,
    telling: UserTelling | None = None,
    leading: Leading | None = None,
    of_set: Mapping[int, Handler] | None = None,
    send_answers: type[SendAnswers] = SendAnswers,
) -> Tables:
    """Builds what a broker answers, by request code.

    Args:
        parts: what the handlers work with.
        address: the address that clients use, ``host:port``.
        store_host: the encoded address.
        routes: know the queues of all brokers.
        redrives: send dead letters again.
        access: stands before all handlers; None if everybody may ask for everything.
        audit: notes administrative changes; None without one.
        telling: has the users that other servers of the cluster are told; None if they need none.
        leading: the leadership of a member of a broker set; None without followers.
        of_set: handlers about the broker set; None without one.
        send_answers: answers sends.
    """
    selections = SelectionShare(parts.work_share)
    limits = parts.rate_limits
    families = (
        *_of_messages(parts, address, store_host, selections, leading, send_answers),
        *_of_pops(parts, selections, routes),
        *_of_clients(parts, selections),
        *_of_administration(parts, address),
        RedriveHandlers(redrives),
    )
    table = unsupported_handlers(UNSUPPORTED)
    for family in families:
        table.update(family.table())
    if access is not None:
        visible = parts.data.settings.now.authentication_password_visible
        users = UserHandlers(parts.data.users, parts.clock, shows_passwords=visible)
        table.update(users.table())
    if telling is not None:
        table.update(UserTableHandler(telling).table())
    if audit is not None:
        table = audited(table, audit, parts.data)
    if leading is not None:
        table.update({**leading.handlers(), **(of_set or {})})
        of_leader = LeaderGuard(leading, parts.data.settings.now.min_in_sync_replicas)
        table = {code: of_leader.guard(code, handler) for code, handler in table.items()}
    guards: tuple[Guard, ...] = (  # the innermost first
        parts.back_pressure.backlog.guard,
        TurnShare(parts.clock.machine).guard,
    )
    for guard in guards:
        table = {code: guard(code, handler) for code, handler in table.items()}
    if access is None:
        table = limits.outer(table)
        return Tables(table, table)
    table = limits.inner(table)
    return Tables(limits.outer(access.table(table)), limits.outer(access.known_table(table)))


def _of_messages(
    parts: BrokerParts,
    address: str,
    store_host: bytes,
    selections: SelectionShare,
    leading: Leading | None,
    send_answers: type[SendAnswers],
) -> tuple[Family, ...]:
    data, members, rng = parts.data, parts.members, parts.random
    settings, store, topics, groups = data.settings, data.store, data.topics, data.groups
    sending = settings.view(SendSettings.of)
    broker_name, appender = settings.now.broker_name, data.appender
    checks, targets = (
        SendChecks(sending),
        SendTargets(topics, groups, store, store.disk, sending, rng),
    )
    added = SendProperties(sending, store_host, parts.clock, rng)
    answers = send_answers(sending, store_host)
    return (
        SendHandlers(
            checks, targets, added, answers,
            DelayedSends(added, answers, appender, parts.schedule, broker_name, store_host),
            HalfSends(added, answers, appender, parts.transactions, store_host),
            RetriedSends(groups, topics, data.order_locks),
            LongBatches(targets, answers, appender, store, store_host, parts.clock.machine),
            appender, store, store_host,
        ),
        PullHandlers(
            topics, groups, data.offsets, members.consumers, store, store.counters,
            Reader(
                store, parts.clock, data.offsets, parts.progress, parts.work_share, parts.catch_up
            ),
            parts.progress, parts.polling, selections, settings.view(PullSettings.of),
            _advice(settings, leading),
        ),
        BulkHandlers(topics, store, appender, store_host, sending, parts.clock.machine),
        QueryHandlers(store, KeySearch(store, parts.keys), members.consumers),
        RetryHandlers(
            topics, groups, store, appender, parts.schedule, store_host, sending, rng,
            parts.statistics.sent_back,
        ),
        TransactionHandlers(
            parts.transactions, store, parts.clock, appender, settings.view(TransactionSettings.of)
        ),
        RecallHandlers(
            topics, store, parts.clock, appender, parts.schedule, store_host,
            settings.view(RecallSettings.of),
        ),
        ReplyHandlers(
            targets, members.producers, appender, parts.clock, address,
            settings.view(ReplySettings.of),
        ),
    )  # fmt: skip


def _advice(settings: LiveSettings, leading: Leading | None) -> LeaderAdvice | None:
    """Sends groups that are far behind to followers; None without followers."""
    if leading is None:
        return None
    return LeaderAdvice(settings.view(ReadAdviceSettings.of), lambda: leading.in_sync_followers)


def _of_pops(
    parts: BrokerParts, selections: SelectionShare, routes: TopicRoutes
) -> tuple[Family, ...]:
    data, popping, waiting, clock = parts.data, parts.popping, parts.waiting, parts.clock
    topics, groups, store, settings = data.topics, data.groups, data.store, data.settings
    reader = Reader(store, clock, data.offsets, parts.progress, parts.work_share, parts.catch_up)
    checks = PopChecks(topics, groups, clock, settings.view(PopCheckSettings.of))
    taking = Taking(
        topics,
        data.offsets,
        store,
        popping.queues,
        popping.traffic,
        reader,
        clock,
        parts.random,
        settings.view(TakingSettings.of),
    )
    return (
        PopHandlers(
            checks, taking, popping.queues, waiting, selections, store, clock, parts.work_share
        ),
        AckHandlers(topics, store, popping.queues, popping.traffic, waiting, clock),
        NotificationHandlers(checks, taking, waiting),
        InFlightHandlers(topics, popping.queues),
        AssignmentHandlers(
            topics, groups, parts.members.consumers, data.request_modes, routes,
            settings.view(AssignmentSettings.of),
        ),
    )  # fmt: skip


def _of_clients(parts: BrokerParts, selections: SelectionShare) -> tuple[Family, ...]:
    data, members = parts.data, parts.members
    topics, groups = data.topics, data.groups
    sql_enabled = data.settings.view(lambda config: config.enable_property_filter)
    return (
        ClientHandlers(
            topics,
            groups,
            members.producers,
            members.consumers,
            parts.clock,
            selections,
            sql_enabled,
            data.settings.view(NameLimits.of),
        ),
        OffsetHandlers(topics, groups, data.offsets, data.store),
        OrderLockHandlers(data.order_locks, parts.clock),
    )


def _of_administration(parts: BrokerParts, address: str) -> tuple[Family, ...]:
    data, consumers = parts.data, parts.members.consumers
    settings, store, topics, groups = data.settings, data.store, data.topics, data.groups
    name, offsets, progress = settings.now.broker_name, data.offsets, parts.progress
    calls = ClientCalls(consumers)
    pops = PopDeletions(parts.popping.queues, parts.waiting, data.request_modes)
    system_names = system_topic_names(settings.now.broker_cluster_name, name)
    figures = StoreFigures(store.logs, store.disk, store.files, store.committer, store.damaged)
    runtime_info = RuntimeInfo(
        figures, parts.disk_forecast, parts.schedule, parts.polling, store.counters,
        parts.statistics, parts.back_pressure, parts.rate_limits, parts.clock,
    )  # fmt: skip
    return (
        TopicHandlers(system_names, topics, offsets, store, progress, parts.polling, pops),
        TopicViewHandlers(
            name, system_names, topics, store, store.counters, store.damaged, parts.clock
        ),
        TopicFigureHandlers(topics, store, store.counters, progress, parts.clock),
        GroupHandlers(topics, groups, offsets, progress, pops),
        GroupViewHandlers(groups, parts.clock),
        ConsumptionHandlers(
            name, address, topics, groups, offsets, consumers, store, progress,
            parts.clock,
        ),
        ResetHandlers(
            name, topics, groups, offsets, store, progress, parts.polling, calls,
            data.settings.view(lambda config: config.use_server_side_reset_offset),
        ),
        RelayHandlers(name, topics, groups, store, calls),
        StatisticsHandlers(runtime_info, parts.statistics, parts.schedule),
        LoneStatusHandlers(figures),
        SettingHandlers(data.settings),
        CleaningHandlers(topics, store, parts.clock, parts.retention, system_names),
        BackupHandlers(_backup_source(parts), store.metadata, settings),
    )  # fmt: skip


def _backup_source(parts: BrokerParts) -> BackupSource:
    data = parts.data

    async def save() -> None:
        while data.groups.save(GROUPS_PER_SLICE):
            await next_slice(parts.clock)
        data.topics.save()
        await data.offsets.save_in_slices(parts.clock)
        parts.schedule.save()

    share = parts.catch_up
    return BackupSource(data.store, save, share.turn, share.took, secrets.token_hex(8))
