"""Who may ask a name server for what: its users, its guard, and the owners of broker names."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from pocketmq.auth.directory import UserDirectory
from pocketmq.auth.guard import Guard
from pocketmq.auth.needs.namesrv import NAMESRV_NEEDS
from pocketmq.auth.needs.parts import Facts
from pocketmq.auth.penalties import Penalties
from pocketmq.auth.refused import RefusalLog
from pocketmq.auth.revoking import Revoking
from pocketmq.auth.settings import auth_settings, check_inner
from pocketmq.auth.told_users import ToldUsers
from pocketmq.namesrv.broker_owners import BrokerOwners
from pocketmq.namesrv.config import NamesrvConfig
from pocketmq.namesrv.route_table import RouteTable
from pocketmq.protocol.signing import Credentials
from pocketmq.runtime.clock import Clock
from pocketmq.transport.connection import Connection
from pocketmq.transport.peer_log import PeerLog

DEFAULT_CLUSTER = "DefaultCluster"
"""The cluster that requests are about while no broker is registered."""


class Access(msgspec.Struct, frozen=True, eq=False):
    """The parts of a name server that decide about requests.

    Attributes:
        directory: of the users.
        guard: stands before the handlers.
        owners: of the broker names.
        users: that brokers have told.
        inner: the credentials of the servers of the cluster.
        refusals: counts and logs refused requests.
    """

    directory: UserDirectory
    guard: Guard
    owners: BrokerOwners
    users: ToldUsers
    inner: Credentials
    refusals: RefusalLog


def access_of(
    config: NamesrvConfig, routes: RouteTable, clock: Clock, connections: Iterable[Connection]
) -> Access | None:
    """Builds what decides about requests; None if everybody may ask for everything.

    Args:
        config: of the name server.
        routes: the registered brokers.
        clock: of the name server.
        connections: the open ones.

    Raises:
        ConfigError: the settings do not fit together.
    """
    settings = auth_settings(config)
    if not settings.is_authenticating:
        return None
    check_inner(settings, "brokers sign with them what they tell this name server")
    assert settings.inner is not None, "it was checked"
    directory = UserDirectory()
    guard = Guard(
        directory,
        NAMESRV_NEEDS,
        Facts(lambda: routes.clusters or (DEFAULT_CLUSTER,)),
        lambda: clock.machine.sleep(0),
        authorizes=settings.is_authorizing,
        open_codes=settings.open_codes,
        unasked_codes=settings.authorization_whitelist,
    )
    refusals = RefusalLog(PeerLog(clock.machine))
    guard.refused.add(refusals.note)
    guard.refused.add(Penalties(clock.machine).note)
    Revoking(directory, connections, release=lambda _: None)
    return Access(
        directory,
        guard,
        BrokerOwners(config, clock, routes),
        ToldUsers(directory, settings.users, routes.knows),
        settings.inner,
        refusals,
    )
