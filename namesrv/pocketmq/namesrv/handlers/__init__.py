"""The handlers of a name server, one module for each family of requests."""

from __future__ import annotations

from pocketmq.namesrv.config import NamesrvConfig
from pocketmq.namesrv.handlers.brokers import BrokerHandlers
from pocketmq.namesrv.handlers.kv import KVHandlers
from pocketmq.namesrv.handlers.routes import RouteHandlers
from pocketmq.namesrv.handlers.settings import SettingsHandlers
from pocketmq.namesrv.handlers.topics import TopicHandlers
from pocketmq.namesrv.handlers.unsupported import UNSUPPORTED
from pocketmq.namesrv.kv_config import KVConfig
from pocketmq.namesrv.route_answers import RouteAnswers
from pocketmq.namesrv.route_table import RouteTable
from pocketmq.runtime.clock import Clock
from pocketmq.transport.connection import Handler
from pocketmq.transport.unsupported import unsupported_handlers


def handler_table(
    routes: RouteTable, kv: KVConfig, config: NamesrvConfig, clock: Clock
) -> dict[int, Handler]:
    """Makes the handlers of all request codes that a name server knows."""
    answers = RouteAnswers(routes, kv, config)
    return {
        **unsupported_handlers(UNSUPPORTED),
        **BrokerHandlers(routes, kv, config, clock).table(),
        **RouteHandlers(routes, answers, config, clock).table(),
        **TopicHandlers(routes, config).table(),
        **KVHandlers(kv).table(),
        **SettingsHandlers(config).table(),
    }
