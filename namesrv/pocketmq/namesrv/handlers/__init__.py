"""The handlers of a name server, one module for each family of requests."""

from __future__ import annotations

from pocketmq.auth.audit_log.audit import Audit
from pocketmq.auth.rates import RateLimits, Rates
from pocketmq.namesrv.access import Access
from pocketmq.namesrv.arbiter import ArbiterFile
from pocketmq.namesrv.config import NamesrvConfig
from pocketmq.namesrv.handlers.arbiter import ArbiterHandlers
from pocketmq.namesrv.handlers.brokers import BrokerHandlers
from pocketmq.namesrv.handlers.controller import ControllerHandlers
from pocketmq.namesrv.handlers.kv import KVHandlers
from pocketmq.namesrv.handlers.routes import RouteHandlers
from pocketmq.namesrv.handlers.settings import SettingsHandlers
from pocketmq.namesrv.handlers.topics import TopicHandlers
from pocketmq.namesrv.handlers.unsupported import UNSUPPORTED
from pocketmq.namesrv.handlers.users import UserHandlers
from pocketmq.namesrv.kv_config import KVConfig
from pocketmq.namesrv.route_answers import RouteAnswers
from pocketmq.namesrv.route_table import RouteTable
from pocketmq.protocol.codes import RequestCode as Code
from pocketmq.runtime.clock import Clock
from pocketmq.transport.connection import Handler
from pocketmq.transport.frame_budget import FrameBudget
from pocketmq.transport.unsupported import unsupported_handlers

AUDITED_CODES = (
    Code.PUT_KV_CONFIG,
    Code.DELETE_KV_CONFIG,
    Code.WIPE_WRITE_PERM_OF_BROKER,
    Code.ADD_WRITE_PERM_OF_BROKER,
    Code.DELETE_TOPIC_IN_NAMESRV,
    Code.UPDATE_NAMESRV_CONFIG,
    Code.UNREGISTER_BROKER,
)
"""Requests that people send to change something, and the end of a broker."""


def handler_table(
    routes: RouteTable,
    kv: KVConfig,
    config: NamesrvConfig,
    clock: Clock,
    access: Access | None = None,
    audit: Audit | None = None,
    arbiter: ArbiterFile | None = None,
    budget: FrameBudget | None = None,
) -> dict[int, Handler]:
    """Makes the handlers of all request codes that a name server knows.

    Args:
        routes, kv: what the name server knows.
        config: of the name server.
        clock: of the name server.
        access: who may ask for what; None for everybody.
        audit: notes administrative changes; None without one.
        arbiter: keeps the states of broker sets; None if another one does.
        budget: that of the server, which bounds the registrations that wait; None for one alone.
    """
    answers = RouteAnswers(routes, kv, config)
    table = {
        **unsupported_handlers(UNSUPPORTED),
        **BrokerHandlers(routes, kv, config, clock, budget or FrameBudget(clock)).table(),
        **RouteHandlers(routes, answers, config, clock).table(),
        **TopicHandlers(routes, config).table(),
        **KVHandlers(kv).table(),
        **SettingsHandlers(config).table(),
        **ArbiterHandlers(arbiter).table(),
    }
    if arbiter is not None:
        table |= ControllerHandlers(arbiter, routes, config).table()
    if audit is not None:
        table |= {code: audit.guard(table[code]) for code in AUDITED_CODES}
    limits = RateLimits(Rates.of(config), clock)
    if access is None:
        return limits.outer(table)
    table |= UserHandlers(access.users, access.inner, routes).table()
    table = {code: access.owners.guard(code, handler) for code, handler in table.items()}
    return limits.outer(access.guard.table(limits.inner(table)))
