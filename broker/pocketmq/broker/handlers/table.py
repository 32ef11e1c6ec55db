"""Which handlers a broker has, and what each of them works with."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Protocol

from pocketmq.broker.appending.write_backlog import WRITE_CODES
from pocketmq.broker.groups.client_calls import ClientCalls
from pocketmq.broker.handlers.administration.cleaning import CleaningHandlers
from pocketmq.broker.handlers.administration.consumption import ConsumptionHandlers
from pocketmq.broker.handlers.administration.groups import GroupHandlers
from pocketmq.broker.handlers.administration.relay import RelayHandlers
from pocketmq.broker.handlers.administration.resets import ResetHandlers
from pocketmq.broker.handlers.administration.settings import SettingHandlers
from pocketmq.broker.handlers.administration.statistics import FigureHandlers
from pocketmq.broker.handlers.administration.topics import TopicHandlers
from pocketmq.broker.handlers.consuming.clients import ClientHandlers
from pocketmq.broker.handlers.consuming.offsets import OffsetHandlers
from pocketmq.broker.handlers.consuming.order_locks import OrderLockHandlers
from pocketmq.broker.handlers.consuming.pull import PullHandlers, PullSettings
from pocketmq.broker.handlers.consuming.queries import QueryHandlers
from pocketmq.broker.handlers.sending.bulk import BulkHandlers
from pocketmq.broker.handlers.sending.recalls import RecallHandlers, RecallSettings
from pocketmq.broker.handlers.sending.replies import ReplyHandlers, ReplySettings
from pocketmq.broker.handlers.sending.retries import RetryHandlers
from pocketmq.broker.handlers.sending.send import SendHandlers
from pocketmq.broker.handlers.sending.send_checks import SendChecks, SendSettings
from pocketmq.broker.handlers.sending.send_properties import SendProperties
from pocketmq.broker.handlers.sending.send_replies import SendAnswers
from pocketmq.broker.handlers.sending.special_sends import SpecialSends
from pocketmq.broker.handlers.sending.transactions import TransactionHandlers, TransactionSettings
from pocketmq.broker.handlers.unsupported import UNSUPPORTED
from pocketmq.broker.statistics.runtime_info import RuntimeInfo
from pocketmq.broker.store.keys.key_search import KeySearch
from pocketmq.broker.topics.topics import system_topic_names
from pocketmq.transport.connection import Handler
from pocketmq.transport.unsupported import unsupported_handlers

if TYPE_CHECKING:
    from pocketmq.broker.broker import Broker


class Family(Protocol):
    """Handlers that belong together."""

    def table(self) -> dict[int, Handler]:
        """The handlers by request code."""


def handler_table(broker: Broker, store_host: bytes, chance: random.Random) -> dict[int, Handler]:
    """What a broker answers, by request code.

    Args:
        broker: all its parts are there.
        store_host: its encoded address.
        chance: picks queues for messages that name none.
    """
    families = (
        *_of_messages(broker, store_host, chance),
        *_of_clients(broker),
        *_of_administration(broker),
    )
    table = unsupported_handlers(UNSUPPORTED)
    for family in families:
        table.update(family.table())
    table.update({code: broker.backlog.guarded(table[code]) for code in WRITE_CODES})
    return table


def _of_messages(broker: Broker, store_host: bytes, chance: random.Random) -> tuple[Family, ...]:
    settings, store, topics, groups = broker.settings, broker.store, broker.topics, broker.groups
    sending = settings.view(SendSettings.of)
    checks = SendChecks(topics, groups, store, sending, chance)
    added = SendProperties(sending, store_host, broker.clock, chance)
    answers = SendAnswers(sending, store_host)
    specials = SpecialSends(
        checks, added, answers, topics, groups, store, broker.schedule, broker.transactions,
        broker.order_locks, settings.now.broker_name, store_host,
    )  # fmt: skip
    return (
        SendHandlers(checks, added, answers, specials, store, store_host),
        PullHandlers(
            topics, groups, broker.offsets, broker.consumers, store, broker.progress,
            broker.polling, settings.view(PullSettings.of),
        ),
        BulkHandlers(topics, store, store_host, sending, broker.clock.machine),
        QueryHandlers(store, KeySearch(store, broker.keys), broker.consumers),
        RetryHandlers(
            topics, groups, store, broker.schedule, store_host, sending, chance,
            broker.statistics.sent_back,
        ),
        TransactionHandlers(broker.transactions, store, settings.view(TransactionSettings.of)),
        RecallHandlers(
            topics, store, broker.schedule, store_host, settings.view(RecallSettings.of)
        ),
        ReplyHandlers(
            checks, broker.producers, store, broker.clock, broker.address,
            settings.view(ReplySettings.of),
        ),
    )  # fmt: skip


def _of_clients(broker: Broker) -> tuple[Family, ...]:
    topics, groups = broker.topics, broker.groups
    sql_enabled = broker.settings.view(lambda config: config.enable_property_filter)
    return (
        ClientHandlers(
            topics, groups, broker.producers, broker.consumers, broker.clock, sql_enabled
        ),
        OffsetHandlers(topics, groups, broker.offsets, broker.store),
        OrderLockHandlers(broker.order_locks),
    )


def _of_administration(broker: Broker) -> tuple[Family, ...]:
    config, store, topics, groups = broker.config, broker.store, broker.topics, broker.groups
    name, offsets, progress = config.broker_name, broker.offsets, broker.progress
    calls = ClientCalls(broker.consumers)
    system_names = system_topic_names(config.broker_cluster_name, name)
    runtime_info = RuntimeInfo(
        store, broker.schedule, broker.polling, broker.statistics, broker.pressure, broker.clock
    )
    return (
        TopicHandlers(name, system_names, topics, offsets, store, progress, broker.polling),
        GroupHandlers(topics, groups, offsets, progress, broker.clock),
        ConsumptionHandlers(
            name, broker.address, topics, groups, offsets, broker.consumers, store, progress,
            broker.clock,
        ),
        ResetHandlers(
            name, topics, groups, offsets, store, progress, broker.polling, calls,
            broker.settings.view(lambda config: config.use_server_side_reset_offset),
        ),
        RelayHandlers(name, topics, groups, store, calls),
        FigureHandlers(runtime_info, broker.statistics, broker.schedule),
        SettingHandlers(broker.settings),
        CleaningHandlers(topics, store, broker.retention, system_names),
    )  # fmt: skip
