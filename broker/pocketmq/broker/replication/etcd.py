"""etcd as the arbiter: compare-and-set on a key's mod_revision, over etcd's JSON gateway.

The gateway (``/v3/kv/…``) is part of every etcd from 3.4 on. There is no lease and no watch in
here: members measure time among themselves (`Lease`), so etcd only has to keep a value.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from pocketmq.broker.replication.arbiter import TIMEOUT_MS, ArbiterError, Versioned
from pocketmq.broker.replication.etcd_messages import (
    Failure,
    RangeAnswer,
    TokenAnswer,
    TransactionAnswer,
    read_after_refusal,
    read_request,
    revision_of,
    versioned,
    write_request,
)
from pocketmq.protocol.errors import ConfigError, ContentError
from pocketmq.runtime.clock import Clock, within
from pocketmq.transport.tls.contexts import client_context
from pocketmq.transport.tls.settings import ClientTls

if TYPE_CHECKING:
    from aiohttp import ClientSession

log = logging.getLogger("pocketmq.replication")

ANSWER_SIZE_MAX = 1024 * 1024
"""Bytes of one answer; a set's state has some hundred."""

READ_SIZE = 64 * 1024
"""Bytes of an answer that are read at once."""

CONNECTIONS_MAX = 4
"""Open connections to etcd: a member asks one thing at a time, or two."""

RANGE, TRANSACTION, LOGIN = "/v3/kv/range", "/v3/kv/txn", "/v3/auth/authenticate"

UNAUTHENTICATED, PERMISSION_DENIED = 16, 7
"""Codes of gRPC for a token that is not valid (any more), and for a key that is not allowed."""

OLD_TOKEN, NO_USER = "revision of auth store is old", "user name is empty"
BAD_LOGIN, NO_LOGIN = "authentication failed", "authentication is not enabled"
"""What etcd says where its code does not tell enough."""

Answer = TypeVar("Answer", RangeAnswer, TransactionAnswer, TokenAnswer)
T = TypeVar("T")


class EtcdSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How to reach etcd.

    Attributes:
        addresses: ``host:port`` of its members, tried in turn.
        user, password: of etcd; empty where it has no authentication.
        tls: how to speak TLS; None for plain connections.
    """

    addresses: tuple[str, ...]
    user: str = ""
    password: str = ""
    tls: ClientTls | None = None

    def __repr__(self) -> str:
        return f"EtcdSettings(addresses={self.addresses!r}, user={self.user!r}, ...)"


class _SilentError(Exception):
    """An endpoint does not help; another one may."""


class _StaleTokenError(_SilentError):
    """etcd does not know the token any more."""


class EtcdArbiter:
    """Keeps values in etcd.

    A request goes to the member of etcd that answered last. If it does not answer, the next ones
    are asked, all within one time limit. A write that is asked of a second member may have been
    carried out for the first one: then the value is there, and the write counts as done.

    Args:
        settings: how to reach etcd.
        clock: for the time limit.
        timeout_ms: how long all members together may take.

    Raises:
        ConfigError: aiohttp is not installed, or the files for TLS cannot be used.
    """

    def __init__(
        self, settings: EtcdSettings, clock: Clock, timeout_ms: float = TIMEOUT_MS
    ) -> None:
        try:
            import aiohttp
        except ImportError:
            raise ConfigError(
                "controllerAddr is etcd://, which needs aiohttp: pip install 'pocketmq[etcd]'"
            ) from None
        self._http = aiohttp
        self._settings, self._clock, self._timeout_s = settings, clock.machine, timeout_ms / 1000
        self._ssl = True if settings.tls is None else client_context(settings.tls)
        self._scheme = "http" if settings.tls is None else "https"
        self._session: ClientSession | None = None
        self._addresses = list(settings.addresses)  # the one that answered last is the first
        self._checked: set[str] = set()
        self._cluster_id = ""
        self._token = ""

    async def read(self, key: str) -> Versioned:
        """See `Arbiter`."""

        async def ask(address: str) -> Versioned:
            return versioned((await self._ask(address, RANGE, read_request(key), RangeAnswer)).kvs)

        return await self._in_turn(ask)

    async def write(self, key: str, value: bytes, version: int) -> int | None:
        """See `Arbiter`."""
        request, tries = write_request(key, value, version), 0

        async def ask(address: str) -> int | None:
            nonlocal tries
            if address not in self._checked:  # nothing is written to another cluster
                await self._ask(address, RANGE, read_request(key), RangeAnswer)
            tries += 1
            answer = await self._ask(address, TRANSACTION, request, TransactionAnswer)
            if answer.succeeded:
                return revision_of(answer)
            now = read_after_refusal(answer)
            return now.version if tries > 1 and now.value == value else None

        return await self._in_turn(ask)

    async def close(self) -> None:
        """Closes the connections."""
        if self._session is not None:
            await self._session.close()

    # -- which member is asked ----------------------------------------------------------------

    async def _in_turn(self, ask: Callable[[str], Awaitable[T]]) -> T:
        """Asks one member after the other, until one answers.

        Raises:
            ArbiterError: none does, or etcd refuses.
        """
        end_s = self._clock.monotonic() + self._timeout_s
        reasons: list[str] = []
        for index, address in enumerate(tuple(self._addresses)):
            left_s = end_s - self._clock.monotonic()
            share_s = left_s / (len(self._addresses) - index)
            try:
                answer = await within(self._clock, share_s, ask(address))
            except TimeoutError:
                reasons.append(f"{address}: no answer in {share_s:.1f} s")
            except _SilentError as e:
                reasons.append(f"{address}: {e}")
            except ContentError as e:
                reasons.append(f"{address}: it is no etcd from 3.4 on: {e}")
            else:
                self._addresses.remove(address)
                self._addresses.insert(0, address)
                return answer
        raise ArbiterError(
            f"the arbiter does not answer (etcd: {'; '.join(reasons)}): start etcd, or correct "
            f"controllerAddr; writing goes on meanwhile, only changes of the set wait"
        )

    async def _ask(
        self, address: str, path: str, request: Mapping[str, Any], kind: type[Answer]
    ) -> Answer:
        """Asks one member, with a token if there is a user.

        Raises:
            ArbiterError: etcd refuses: nothing was done.
            ContentError: that is no answer of etcd.
        """
        if not self._settings.user:
            return await self._post(address, path, request, kind, {})
        fresh = not self._token
        if fresh:
            await self._log_in(address)
        try:
            return await self._post(address, path, request, kind, self._signed())
        except _StaleTokenError:
            if fresh:
                raise
        await self._log_in(address)
        return await self._post(address, path, request, kind, self._signed())

    def _signed(self) -> dict[str, str]:
        return {"Authorization": self._token} if self._token else {}

    async def _log_in(self, address: str) -> None:
        request = {"name": self._settings.user, "password": self._settings.password}
        self._token = ""
        answer = await self._post(address, LOGIN, request, TokenAnswer, {})
        self._token = answer.token

    # -- one request --------------------------------------------------------------------------

    async def _post(
        self,
        address: str,
        path: str,
        request: Mapping[str, Any],
        kind: type[Answer],
        headers: Mapping[str, str],
    ) -> Answer:
        status, data = await self._exchange(address, path, request, headers)
        if status >= 500:
            raise _SilentError(f"{_failure(data).error or data[:100]!r} ({status})")
        if status != 200:
            failure = _failure(data)
            if failure.code == UNAUTHENTICATED or OLD_TOKEN in failure.error:
                raise _StaleTokenError("it does not know the token that it has given")
            if not failure.error:
                raise ContentError(f"{path} has status {status}, {data[:80]!r}")
            if not (path == LOGIN and NO_LOGIN in failure.error):
                raise self._refused(address, failure)
            # As etcd's own client: a user may be set before etcd asks for one.
            return msgspec.convert({"header": {}, "token": ""}, kind)
        try:
            answer = msgspec.json.decode(data, type=kind)
        except msgspec.MsgspecError as e:
            raise ContentError(str(e)) from None
        self._check_cluster(address, answer.header.cluster_id)
        return answer

    async def _exchange(
        self, address: str, path: str, request: Mapping[str, Any], headers: Mapping[str, str]
    ) -> tuple[int, bytes]:
        """Sends a request; returns the status and the body of the answer."""
        http = self._http
        if self._session is None:
            connector = http.TCPConnector(limit=CONNECTIONS_MAX, ssl=self._ssl)
            timeout = http.ClientTimeout(total=None)  # `within` counts
            self._session = http.ClientSession(connector=connector, timeout=timeout)
        body, data = msgspec.json.encode(request), bytearray()
        try:
            async with self._session.post(
                f"{self._scheme}://{address}{path}", data=body, headers=headers,
                allow_redirects=False,
            ) as answer:  # fmt: skip
                while part := await answer.content.read(READ_SIZE):
                    data += part
                    if len(data) > ANSWER_SIZE_MAX:
                        raise ContentError(f"an answer has more than {ANSWER_SIZE_MAX} bytes")
                return answer.status, bytes(data)
        except http.ClientConnectorCertificateError as e:
            raise ArbiterError(
                f"the certificate of etcd at {address} is not trusted ({e.certificate_error}): set "
                f"etcdTrustCertPath to the file of its authority"
            ) from e
        except (http.ClientError, OSError) as e:
            told = [str(cause) or type(cause).__name__ for cause in (e, e.__cause__) if cause]
            if not isinstance(e, http.ClientConnectorError):  # it was connected
                told += self._hints()
            raise _SilentError(": ".join(told)) from e

    def _hints(self) -> list[str]:
        """What an endpoint may want that closes a connection without an answer."""
        if self._settings.tls is None:
            return ["does it speak TLS? Then controllerAddr is etcds://…"]
        if not self._settings.tls.cert_path:
            return ["does it ask for a certificate? Set etcdCertPath and etcdKeyPath"]
        return []

    def _check_cluster(self, address: str, cluster_id: str) -> None:
        if not cluster_id:
            raise ContentError("the answer names no cluster")
        if self._cluster_id and cluster_id != self._cluster_id:
            raise ArbiterError(
                f"etcd at {address} is of cluster {cluster_id}, but the other members are of "
                f"{self._cluster_id}: name members of one cluster in controllerAddr; if etcd was "
                f"set up anew, start this broker again"
            )
        self._cluster_id = cluster_id
        self._checked.add(address)

    def _refused(self, address: str, failure: Failure) -> ArbiterError:
        user = self._settings.user
        if failure.code == PERMISSION_DENIED:
            remedy = f"give a role of user {user} readwrite on the prefix /pocketmq/"
        elif NO_USER in failure.error:
            remedy = "set etcdUser and etcdPassword"
        elif BAD_LOGIN in failure.error:
            remedy = f"correct etcdUser (now {user}) and etcdPassword"
        else:
            remedy = "look at etcd's log"
        return ArbiterError(f"etcd at {address} refuses: {failure.error}: {remedy}")


def _failure(data: bytes) -> Failure:
    try:
        return msgspec.json.decode(data, type=Failure)
    except msgspec.MsgspecError:
        return Failure()
