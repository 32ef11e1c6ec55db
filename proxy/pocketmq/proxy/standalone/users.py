"""The users of a cluster, as a proxy that asks for signatures knows them."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from pocketmq.auth.accounts import Accounts
from pocketmq.auth.directory import UserDirectory
from pocketmq.auth.grpc_signature import caller
from pocketmq.auth.guard import refusal
from pocketmq.auth.rights.policies import Action, Need, Resource, ResourceType
from pocketmq.auth.telling import UserTable
from pocketmq.auth.told_users import ToldUsers
from pocketmq.auth.users import User, UserType
from pocketmq.protocol.errors import ContentError, OperatingError
from pocketmq.protocol.requests.users import UserTableRequest
from pocketmq.protocol.signing import Credentials, sign
from pocketmq.protocol.wire.command import Command
from pocketmq.proxy.rpc import messaging_pb2 as pb
from pocketmq.proxy.standalone.name_servers import NameServers
from pocketmq.proxy.statuses import Refusal
from pocketmq.runtime.clock import Clock
from pocketmq.transport.pool import ConnectionPool

log = logging.getLogger("pocketmq.proxy")

ASKED_EVERY_S = 5.0
"""Brokers are asked so often whether users have changed."""

TIMEOUT_MS = 3_000


class ClusterUsers:
    """Authenticates the clients of a proxy, and signs in their names.

    Brokers check each request of a client as if it had come from the client itself: what its user
    may do is decided there. The proxy only looks at the signature of the call.

    Args:
        name_servers: know the brokers.
        pool: asks them as a server of the cluster.
        inner: the credentials of the servers of the cluster.
        authorizes: whether brokers ask policies.
    """

    def __init__(
        self,
        name_servers: NameServers,
        pool: ConnectionPool,
        inner: Credentials,
        *,
        authorizes: bool,
    ) -> None:
        self._name_servers, self._pool, self._inner = name_servers, pool, inner
        self._authorizes = authorizes
        self._directory = UserDirectory()
        self._accounts = Accounts(self._directory)
        configured = [User(inner.access_key, inner.secret_key, UserType.SUPER)]
        self._told = ToldUsers(self._directory, configured, lambda n: n in name_servers.masters)
        self._versions: dict[str, int] = {}
        self._silent: set[str] = set()

    async def follow(self, clock: Clock) -> None:
        """Learns of changes, without an end."""
        while True:
            await clock.machine.sleep(ASKED_EVERY_S)
            await self.learn()

    async def learn(self) -> None:
        """Asks all brokers for their users; one that does not answer is asked the next time."""
        try:
            await self._name_servers.learn_brokers()
        except OperatingError as e:
            log.warning("no name server answers: %s", e)
        for name, address in sorted(self._name_servers.masters.items()):
            try:
                await self._learn_of(name, address)
                self._silent.discard(name)
            except (OperatingError, ContentError) as e:
                if name not in self._silent:  # told once, not every time
                    log.warning("%s does not tell its users: %s", name, e)
                self._silent.add(name)

    async def _learn_of(self, broker_name: str, address: str) -> None:
        request = UserTableRequest(version=self._versions.get(broker_name, 0))
        body = (await self._pool.ask(address, request, TIMEOUT_MS)).body
        if body:
            table = UserTable.opened(body, self._inner)
            self._told.take(broker_name, table)
            self._versions[broker_name] = table.version

    def authenticate(self, metadata: Mapping[str, str]) -> str:
        """Returns the user who has signed a call.

        Raises:
            Refusal: UNAUTHORIZED, the signature is missing or wrong; PROXY_TIMEOUT, no broker has
                told its users yet.
        """
        if not self._versions:
            raise Refusal(pb.PROXY_TIMEOUT, "no broker has told its users yet: is one running?")
        try:
            return caller(metadata, self._accounts.find).name
        except ContentError as e:
            raise Refusal(pb.UNAUTHORIZED, str(e)) from e

    def sign(self, command: Command, user: str) -> None:
        """Signs a request to a broker in the name of a user.

        Raises:
            Refusal: UNAUTHORIZED, the user is gone.
        """
        known = self._directory.user(user)
        if known is None:
            raise Refusal(pb.UNAUTHORIZED, f"User:{user} is not found.")
        sign(command, Credentials(user, known.password))

    def missing_right(self, user: str, topic: str, remote_address: str) -> str | None:
        """Says why a user may neither send to a topic nor consume it; None if it may."""
        account = self._accounts.find(user)
        if account is None or not self._authorizes or account.is_super:
            return None
        need = Need(Resource(ResourceType.TOPIC, topic), frozenset({Action.PUB, Action.SUB}))
        return refusal(account, [need], remote_address.rpartition(":")[0].strip("[]"))
