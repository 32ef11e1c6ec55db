"""Handlers of brokers: 103 register, 104 unregister, 322 compare versions, 904 heartbeat."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Awaitable
from hashlib import blake2b

from pocketmq.namesrv.broker_registration import BrokerKey, BrokerRegistration
from pocketmq.namesrv.broker_turns import BrokerTurns, read_in_slices
from pocketmq.namesrv.config import NamesrvConfig
from pocketmq.namesrv.kv_config import ORDER_TOPIC_NAMESPACE, KVConfig
from pocketmq.namesrv.route_table import RouteTable
from pocketmq.protocol.bodies.registrations import RegisteredTopics, read_registration
from pocketmq.protocol.bodies.topics import DataVersion
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import ResponseError
from pocketmq.protocol.names.advertise import Advertised, caller_address, parse_advertised
from pocketmq.protocol.requests.nameserver import (
    BrokerHeartbeatRequest,
    QueryDataVersionRequest,
    QueryDataVersionResponse,
    RegisterBrokerRequest,
    RegisterBrokerResponse,
    UnregisterBrokerRequest,
)
from pocketmq.protocol.wire import loose_json
from pocketmq.protocol.wire.command import Command
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.slices import next_slice
from pocketmq.transport.connection import Connection, Handler, Reply
from pocketmq.transport.errors import ConnectionClosedError
from pocketmq.transport.frame_budget import FrameBudget

log = logging.getLogger("pocketmq.namesrv")

DIGESTED_SIZE_MIN = 4096
"""Bytes of a registration from which on it is compared with the one before: reading so many takes
longer than that."""

CRC_MASK = 0x7FFFFFFF
"""RocketMQ's checksums have no sign bit."""


class BrokerHandlers:
    """Enters into the route table what brokers say of themselves."""

    def __init__(
        self,
        routes: RouteTable,
        kv: KVConfig,
        config: NamesrvConfig,
        clock: Clock,
        budget: FrameBudget,
    ) -> None:
        self._routes, self._kv, self._config, self._clock = routes, kv, config, clock
        self._turns = BrokerTurns(clock, budget)

    def table(self) -> dict[int, Handler]:
        """Returns the handlers by request code."""
        return {
            RegisterBrokerRequest.code: self.register,
            UnregisterBrokerRequest.code: self.unregister,
            QueryDataVersionRequest.code: self.query_data_version,
            BrokerHeartbeatRequest.code: self.heartbeat,
        }

    def register(self, request: Command, connection: Connection) -> Reply:
        """103: enters a broker's addresses and topics; tells a slave its master's address."""
        header, body = request.read(RegisterBrokerRequest), request.body
        _check_names(header)
        registration = self._registration(header, connection)
        key = registration.key
        if self._turns.must_wait(key, len(body)):
            return self._turns.after_earlier(
                key, self._register_later(header, request, registration), len(body)
            )
        _check_sum(header, body)
        if self._is_same_again(header, registration, body):
            return self._enter(header, registration, is_same_again=True)
        topics = read_registration(body, compressed=header.compressed, version=request.version)
        self._set_topics(registration, topics)
        return self._enter(header, registration)

    def _is_same_again(
        self, header: RegisterBrokerRequest, registration: BrokerRegistration, body: bytes
    ) -> bool:
        """Whether nothing is new, as in what Apache's brokers send every 30 s (forceRegister)."""
        if len(body) < DIGESTED_SIZE_MIN:
            return False
        registration.digest = blake2b(body, digest_size=16).digest()
        return self._routes.is_same_again(
            registration, drops_other_topics=self._drops_others(header)
        )

    async def _register_later(
        self, header: RegisterBrokerRequest, request: Command, registration: BrokerRegistration
    ) -> Command:
        """The same for a large registration, or behind one, in slices."""
        async with self._turns.reading:
            is_same_again = await self._read(header, request, registration)
        connection = registration.channel
        assert isinstance(connection, Connection)
        if connection.is_closing:  # nobody would take the broker out again
            raise ConnectionClosedError(connection.remote_address, connection.close_reason)
        reply = self._enter(header, registration, is_same_again=is_same_again)
        return reply if isinstance(reply, Command) else await reply

    async def _read(
        self, header: RegisterBrokerRequest, request: Command, registration: BrokerRegistration
    ) -> bool:
        """Reads the topics of a registration, and returns whether they are the same again."""
        await next_slice(self._clock)
        _check_sum(header, request.body)
        if self._is_same_again(header, registration, request.body):
            return True
        topics = await read_in_slices(
            self._clock, request.body, compressed=header.compressed, version=request.version
        )
        self._set_topics(registration, topics)
        return False

    def _enter(
        self,
        header: RegisterBrokerRequest,
        registration: BrokerRegistration,
        *,
        is_same_again: bool = False,
    ) -> Command | Awaitable[Command]:
        connection = registration.channel
        assert isinstance(connection, Connection)
        known = self._routes.version_of(registration.key)
        if is_same_again and known is not None:
            registration.version = known
        master = self._routes.register(
            registration,
            self._clock.now_ms(),
            drops_other_topics=self._drops_others(header),
            is_same_again=is_same_again,
        )
        if known is None:
            log.info(
                "broker %s (id %d) of %s registers as %s from %s with %d topics",
                header.broker_name,
                header.broker_id,
                header.cluster_name,
                header.broker_addr,
                connection.remote_address,
                len(registration.topics),
            )
        answer = RegisterBrokerResponse(ha_server_addr=master.ha)
        if master.master is not None:
            answer.master_addr = self._routes.live.address_for(
                BrokerKey(header.cluster_name, master.master),
                caller_address(connection.remote_host),
            )
        order_topics = self._order_topics()
        if order_topics is None:
            return self._registered(answer)
        return Command(ResponseCode.SUCCESS, header=answer, body=order_topics)

    async def _registered(self, answer: RegisterBrokerResponse) -> Command:
        order_topics = await self._kv.listing(ORDER_TOPIC_NAMESPACE)
        return Command(ResponseCode.SUCCESS, header=answer, body=order_topics)

    def _drops_others(self, header: RegisterBrokerRequest) -> bool:
        return self._config.delete_topic_with_broker_registration and not header.partial

    def _registration(
        self, header: RegisterBrokerRequest, connection: Connection
    ) -> BrokerRegistration:
        """What the header says; the topics are still to be read."""
        timeout_ms = header.heartbeat_timeout_millis
        return BrokerRegistration(
            cluster=header.cluster_name,
            broker_name=header.broker_name,
            broker_id=header.broker_id,
            address=header.broker_addr,
            timeout_ms=self._config.broker_expired_timeout if timeout_ms is None else timeout_ms,
            ha_address=header.ha_server_addr,
            zone=header.zone_name,
            acting_master=header.enable_acting_master,
            advertised=parse_advertised(header.advertise) if header.advertise else Advertised(),
            channel=connection,
            is_partial=bool(header.partial),
        )

    def _set_topics(self, broker: BrokerRegistration, found: RegisteredTopics) -> None:
        broker.version, broker.topics, broker.mappings = found.version, found.topics, found.mappings
        if self._config.delete_topic_with_broker_registration:
            broker.removed = found.removed

    def _order_topics(self) -> bytes | None:
        """What a broker is told of ordered topics; None if that is still to be encoded."""
        namespace = ORDER_TOPIC_NAMESPACE
        is_wanted = self._config.return_order_topic_config_to_broker
        if not is_wanted or self._kv.namespace(namespace) is None:
            return b""
        return self._kv.listing_now(namespace)

    def unregister(self, request: Command, connection: Connection) -> Reply:
        """104: removes a broker that stops."""
        header = request.read(UnregisterBrokerRequest)
        key = BrokerKey(header.cluster_name, header.broker_addr)
        if self._turns.must_wait(key):
            return self._turns.after_earlier(key, self._unregister_later(key, header))
        return self._unregister(key, header)

    async def _unregister_later(self, key: BrokerKey, header: UnregisterBrokerRequest) -> Command:
        return self._unregister(key, header)

    def _unregister(self, key: BrokerKey, header: UnregisterBrokerRequest) -> Command:
        if self._routes.unregister(key, header.broker_name):
            log.info("broker %s at %s unregisters", header.broker_name, header.broker_addr)
        return Command(ResponseCode.SUCCESS)

    def query_data_version(self, request: Command, connection: Connection) -> Command:
        """322: tells a broker whether it has to register in full; counts as a heartbeat, too."""
        header = request.read(QueryDataVersionRequest)
        key = BrokerKey(header.cluster_name, header.broker_addr)
        known = self._routes.version_of(key)
        offered = loose_json.decode(request.body, DataVersion) if request.body else None
        self._routes.touch(key, self._clock.now_ms())
        return Command(
            ResponseCode.SUCCESS,
            header=QueryDataVersionResponse(changed=known is None or known != offered),
            body=b"" if known is None else loose_json.encode(known),
        )

    def heartbeat(self, request: Command, connection: Connection) -> Command:
        """904: notes that a broker is alive."""
        header = request.read(BrokerHeartbeatRequest)
        self._routes.touch(BrokerKey(header.cluster_name, header.broker_addr), self._clock.now_ms())
        return Command(ResponseCode.SUCCESS)


def _check_names(header: RegisterBrokerRequest) -> None:
    for name, value in (
        ("clusterName", header.cluster_name),
        ("brokerName", header.broker_name),
        ("brokerAddr", header.broker_addr),
    ):
        if not value.strip():
            raise ResponseError(
                ResponseCode.SYSTEM_ERROR, f"register broker failed: {name} is blank"
            )


def _check_sum(header: RegisterBrokerRequest, body: bytes) -> None:
    if header.body_crc32:
        found = zlib.crc32(body) & CRC_MASK
        if found != header.body_crc32:
            raise ResponseError(
                ResponseCode.SYSTEM_ERROR,
                f"crc32 not match: bodyCrc32 says {header.body_crc32}, the body has {found}; "
                f"it was damaged on its way, register again",
            )
