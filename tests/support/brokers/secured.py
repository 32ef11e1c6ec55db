"""A broker and a name server that authenticate and authorize, and clients with names."""

from __future__ import annotations

from functools import partial
from typing import Any

from support.brokers.broker_parts import LOCALHOST, Client, Stage
from support.peers.transport import until

from pocketmq.auth.rights.policies import Acl, Action, Decision, PolicyEntry
from pocketmq.auth.users import User, UserStatus, UserType
from pocketmq.broker import Broker
from pocketmq.namesrv import NameServer, NamesrvConfig
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.signing import Credentials, sign
from pocketmq.testing.clock import VirtualClock
from pocketmq.transport.pool import ConnectionPool

ADMIN, INNER, BARE = (
    Credentials("admin", "admin-secret-1"),
    Credentials("inner", "inner-secret-2"),
    Credentials("bare", "bare-secret-3"),
)
SECRETS = [credentials.secret_key for credentials in (ADMIN, INNER, BARE)]
SETTINGS: dict[str, Any] = {
    "authentication_enabled": True,
    "authorization_enabled": True,
    "init_authentication_user": '{"username":"admin","password":"admin-secret-1"}',
    "inner_client_authentication_credentials": {
        "accessKey": "inner",
        "secretKey": "inner-secret-2",
    },
}
REFUSED = int(ResponseCode.NO_PERMISSION)


class Cluster:
    """A name server, a broker, and clients with names."""

    def __init__(self, stage: Stage, clock: VirtualClock) -> None:
        self.stage, self.clock = stage, clock
        self.pools: list[ConnectionPool] = []
        self.server: NameServer
        self.broker: Broker

    async def start(self, **settings: Any) -> None:
        config = NamesrvConfig(listen_port=0, bind_address=LOCALHOST, **SETTINGS)
        self.server = await NameServer(config, self.clock).__aenter__()
        self.broker = await self.stage.broker(
            namesrv_addr=self.server.address, **SETTINGS | settings
        )
        self.users.put_user(user_of(BARE))
        await until(lambda: self.server_knows("bare"))

    @property
    def users(self) -> Any:
        return self.broker.parts.data.users

    def server_knows(self, name: str) -> bool:
        access = self.server.access
        return access is not None and access.directory.user(name) is not None

    def pool(self, credentials: Credentials | None) -> ConnectionPool:
        before = () if credentials is None else (partial(sign, credentials=credentials),)
        pool = ConnectionPool(self.clock, before_request=before)
        self.pools.append(pool)
        return pool

    def client(self, credentials: Credentials | None) -> Client:
        client = Client(self.broker, self.clock)
        client.pool = self.pool(credentials)
        return client

    async def close(self) -> None:
        for pool in self.pools:
            await pool.close()
        await self.server.close()


def user_of(
    credentials: Credentials,
    kind: UserType = UserType.NORMAL,
    status: UserStatus = UserStatus.ENABLE,
    changed_ms: int = 1,
) -> User:
    return User(credentials.access_key, credentials.secret_key, kind, status, changed_ms)


def allow(broker: Broker, credentials: Credentials, **rights: str) -> None:
    """Gives a user rights, such as ``Topic_T="Pub"``, and no others."""
    entries = tuple(
        PolicyEntry(
            resource.replace("_", ":", 1),
            frozenset(Action(name) for name in actions.split(",")),
            Decision.ALLOW,
        )
        for resource, actions in rights.items()
    )
    broker.parts.data.users.put_policies(Acl(credentials.access_key, entries), 2)
