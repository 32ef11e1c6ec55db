"""The handlers of a name server, one module for each family of requests."""

from __future__ import annotations

from pocketmq.namesrv.access import Access
from pocketmq.namesrv.config import NamesrvConfig
from pocketmq.namesrv.handlers.brokers import BrokerHandlers
from pocketmq.namesrv.handlers.kv import KVHandlers
from pocketmq.namesrv.handlers.routes import RouteHandlers
from pocketmq.namesrv.handlers.settings import SettingsHandlers
from pocketmq.namesrv.handlers.topics import TopicHandlers
from pocketmq.namesrv.handlers.unsupported import UNSUPPORTED
from pocketmq.namesrv.handlers.users import UserHandlers
from pocketmq.namesrv.kv_config import KVConfig
from pocketmq.namesrv.route_answers import RouteAnswers
from pocketmq.namesrv.route_table import RouteTable
from pocketmq.runtime.clock import Clock
from pocketmq.transport.connection import Handler
from pocketmq.transport.unsupported import unsupported_handlers


def handler_table(
    routes: RouteTable,
    kv: KVConfig,
    config: NamesrvConfig,
    clock: Clock,
    access: Access | None = None,
) -> dict[int, Handler]:
    """Makes the handlers of all request codes that a name server knows.

    Args:
        routes, kv: what the name server knows.
        config: of the name server.
        clock: of the name server.
        access: who may ask for what; None for everybody.
    """
    answers = RouteAnswers(routes, kv, config)
    table = {
        **unsupported_handlers(UNSUPPORTED),
        **BrokerHandlers(routes, kv, config, clock).table(),
        **RouteHandlers(routes, answers, config, clock).table(),
        **TopicHandlers(routes, config).table(),
        **KVHandlers(kv).table(),
        **SettingsHandlers(config).table(),
    }
    if access is None:
        return table
    table |= UserHandlers(access.users, access.inner, routes).table()
    table = {code: access.owners.guard(code, handler) for code, handler in table.items()}
    return access.guard.table(table)
