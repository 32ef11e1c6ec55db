"""Serves the console's API for a cluster."""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, NamedTuple, Self

from starlette.types import ASGIApp

from pocketmq.console.api.access.audit_calls import AuditCalls
from pocketmq.console.api.access.user_calls import UserCalls
from pocketmq.console.api.brokers.broker_calls import BrokerCalls
from pocketmq.console.api.callers import Callers
from pocketmq.console.api.changes.changes import Changes
from pocketmq.console.api.cluster_calls import ClusterCalls
from pocketmq.console.api.finding.finding_calls import FindingCalls
from pocketmq.console.api.finding.traces import TraceCalls
from pocketmq.console.api.group_calls import GroupCalls
from pocketmq.console.api.message_calls import MessageCalls
from pocketmq.console.api.paths import PREFIX
from pocketmq.console.api.rates.rate_calls import RateCalls
from pocketmq.console.api.redrives.letter_calls import LetterCalls
from pocketmq.console.api.redrives.redrive_calls import RedriveCalls
from pocketmq.console.api.tails.tail_calls import TailCalls
from pocketmq.console.api.topic_calls import TopicCalls
from pocketmq.console.api.waiting.in_flight import InFlightCalls
from pocketmq.console.api.waiting.waiting_calls import WaitingCalls
from pocketmq.console.decoding.decoders import installed_decoders
from pocketmq.console.login.settings import LoginOptions
from pocketmq.console.pages.access_pages import AccessPages
from pocketmq.console.pages.broker_pages import BrokerPages
from pocketmq.console.pages.finding_pages import finding_pages
from pocketmq.console.pages.further import NOTHING, Further
from pocketmq.console.pages.pages import Family, Pages
from pocketmq.console.pages.rate_pages import rate_pages
from pocketmq.console.pages.redrives.family import RedrivePages
from pocketmq.console.pages.tail_pages import tail_pages
from pocketmq.console.pages.waiting_pages import waiting_pages
from pocketmq.console.pages.writing.family import WritingPages
from pocketmq.console.web.app import api_app
from pocketmq.console.web.base_path import BasePath
from pocketmq.console.web.gate import Gate, check_origin, is_loopback
from pocketmq.console.web.operations import Api, Operation
from pocketmq.console.web.server import WebServer
from pocketmq.console.web.visitors import Visitors
from pocketmq.runtime.clock import Clock, SystemClock
from pocketmq.transport.errors import CannotListenError
from pocketmq.transport.tls.settings import ClientTls

if TYPE_CHECKING:
    from pocketmq.console.decoding.schema_decoder import SchemaOptions
    from pocketmq.console.login.login import Logins
    from pocketmq.console.web.measured import ConsoleMetrics

log = logging.getLogger("pocketmq.console")

CONSOLE_API = Api(
    name="console",
    title="PocketMQ API",
    summary="What people and programs see of a cluster, and do to it.",
    when_refused="see what the detail says; GET /api/v1/cluster shows which brokers answer",
    when_failed="see which brokers answer: GET /api/v1/cluster",
    when_remote="start it with --host, in a network that you trust",
    when_mistaken="report it with what the console has logged",
    prefix=PREFIX,
    has_users=True,
)


class ConsoleOptions(NamedTuple):
    """How a console is served.

    Attributes:
        host: the address to listen on.
        port: 0 lets the system choose.
        read_only: whether requests that would change something are refused.
        no_bodies: whether the bodies of messages stay hidden.
        base: the path before all links of the pages, such as ``/mq`` behind a proxy that takes it
            away; empty for none.
        forwarded_prefix: whether the proxy says the path in the header X-Forwarded-Prefix.
        origin: where browsers see the console through a proxy, such as ``https://mq.example.org``;
            empty for nowhere.
        port_remedy: how another port is chosen when this one is in use.
        tls: how to speak TLS to the cluster; None for plain connections.
        login: how people log in by an OpenID Connect provider; None for users and passwords of the
            cluster, by HTTP's Basic scheme.
        schemas: where the schemas of bodies are; None for nowhere.
        metrics_port: where Prometheus scrapes the console (docs/metrics.md); 0 lets the system
            choose, None is for nowhere.
        metrics_host: the address that it is scraped on.
    """

    host: str = "127.0.0.1"
    port: int = 8280
    read_only: bool = False
    no_bodies: bool = False
    base: str = ""
    forwarded_prefix: bool = False
    origin: str = ""
    port_remedy: str = "choose another port, or 0, and the system chooses a free one"
    tls: ClientTls | None = None
    login: LoginOptions | None = None
    schemas: SchemaOptions | None = None
    metrics_port: int | None = None
    metrics_host: str = "127.0.0.1"


class ConsoleServer:
    """Serves within ``async with ConsoleServer(namesrv, options)``.

    Args:
        namesrv: the name servers of the cluster, of this project or Apache's.
        options: how.
        clock: the source of time.
        further: what a component above the console adds to it.

    Attributes:
        operations: all of the API.
        tails: that go on.
        rates: over time.
        address: ``host:port``, while it serves.
        metrics_port: where it is scraped; None if it is not.
    """

    def __init__(
        self,
        namesrv: str,
        options: ConsoleOptions,
        clock: Clock | None = None,
        further: Further = NOTHING,
    ) -> None:
        clock = self._clock = clock or SystemClock()
        self._callers = Callers(
            namesrv,
            options.tls,
            writes=not options.read_only,
            bodies=not options.no_bodies,
            clock=further.clock,
            heard=further.heard,
        )
        self._options = options
        callers = self._callers
        cluster, topics = ClusterCalls(callers), TopicCalls(callers)
        decoders = installed_decoders(clock, options.schemas)
        messages, groups = MessageCalls(callers, clock, decoders), GroupCalls(callers, clock)
        finding = FindingCalls(callers, clock, decoders)
        waiting, in_flight = WaitingCalls(callers, clock), InFlightCalls(callers)
        traces = TraceCalls(callers)
        brokers = BrokerCalls(callers)
        users, audit = UserCalls(callers), AuditCalls(callers, clock)
        letters, redrives = LetterCalls(callers, clock, decoders), RedriveCalls(callers, clock)
        changes = Changes(callers, clock)
        self.tails, self.rates = TailCalls(callers, clock), RateCalls(callers, clock)
        self.operations: list[Operation] = [
            *cluster.operations(),
            *brokers.operations(),
            *users.operations(),
            *audit.operations(),
            *topics.operations(),
            *changes.operations(),
            *messages.operations(),
            *finding.operations(),
            *traces.operations(),
            *waiting.operations(),
            *in_flight.operations(),
            *letters.operations(),
            *redrives.operations(),
            *self.tails.operations(),
            *self.rates.operations(),
            *groups.operations(),
        ]
        base = BasePath(options.base, is_forwarded=options.forwarded_prefix)
        gate = self._gate = Gate(options.host, CONSOLE_API, check_origin(options.origin), base)
        families: list[Family] = [
            tail_pages(self.tails),
            rate_pages(self.rates, topics),
            finding_pages(messages, finding),
            waiting_pages(waiting, in_flight, traces),
            WritingPages(topics, messages, groups, changes),
            BrokerPages(brokers),
            AccessPages(users, audit),
            RedrivePages(letters, redrives),
        ]
        self._pages = Pages(
            callers,
            cluster,
            topics,
            messages,
            groups,
            gate,
            CONSOLE_API,
            base,
            [*families, *further.families],
            [*further.links, *([("/logout", "Log out")] if options.login else [])],
            further.templates,
        )
        self._logins: Logins | None = None
        if options.login is not None:
            from pocketmq.console.login.login import Logins  # what it needs is an extra

            self._logins = Logins(options.login, gate, base, options.origin, clock)
        self.address = ""
        self.metrics_port: int | None = None
        self._scrapes = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Starts to listen.

        Raises:
            ConfigError: the address is in use.
        """
        options = self._options
        logins, routes = self._logins, self._pages.routes()
        if logins is not None:
            routes = [*logins.routes(), *routes]
        app: ASGIApp = api_app(self.operations, self._gate, CONSOLE_API, routes)
        if logins is not None:
            app = logins.guard(Visitors(app))
        metrics = self._metrics()
        self._server = WebServer(
            app, options.host, options.port, "the console", options.port_remedy, self._clock,
            None if metrics is None else metrics.measured,
        )  # fmt: skip
        await self._server.__aenter__()
        if metrics is not None:
            await self._export(metrics)
        self.address = self._server.address
        if not is_loopback(options.host):
            log.warning(
                "the console on %s speaks plain HTTP: put a proxy with TLS before it, or passwords "
                "can be read on their way",
                self.address,
            )
        return self

    def _metrics(self) -> ConsoleMetrics | None:
        """What measures requests for Prometheus; None if nobody scrapes the console."""
        if self._options.metrics_port is None:
            return None
        from pocketmq.console.web.measured import ConsoleMetrics

        return ConsoleMetrics(PREFIX, lambda: self.tails.count, self._clock)

    async def _export(self, metrics: ConsoleMetrics) -> None:
        from pocketmq.transport.metering.scrape_port import open_scrape_port

        options = self._options
        assert options.metrics_port is not None
        try:
            self.metrics_port = await open_scrape_port(
                metrics.page, options.metrics_host, options.metrics_port, self._clock,
                "the console (--metrics-port)", self._scrapes,
            )  # fmt: skip
        except CannotListenError:
            await self._server.__aexit__(None, None, None)
            raise

    async def __aexit__(self, *exc_info: object) -> None:
        await self._scrapes.aclose()
        self.tails.stop()
        await self.rates.close()
        await self._server.__aexit__(*exc_info)
        await self._callers.close()
