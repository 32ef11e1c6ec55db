"""Handlers of brokers: 103 register, 104 unregister, 322 compare versions, 904 heartbeat."""

from __future__ import annotations

import logging
import zlib

from pocketmq.namesrv.config import NamesrvConfig
from pocketmq.namesrv.kv_config import ORDER_TOPIC_NAMESPACE, KVConfig
from pocketmq.namesrv.route_table import BrokerKey, BrokerRegistration, RouteTable
from pocketmq.protocol.bodies.registrations import read_registration
from pocketmq.protocol.bodies.topics import DataVersion, RegisterBrokerBody
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
from pocketmq.transport.connection import Connection, Handler, Reply

log = logging.getLogger("pocketmq.namesrv")

CRC_MASK = 0x7FFFFFFF
"""RocketMQ's checksums have no sign bit."""


class BrokerHandlers:
    """Enters into the route table what brokers say of themselves."""

    def __init__(
        self, routes: RouteTable, kv: KVConfig, config: NamesrvConfig, clock: Clock
    ) -> None:
        self._routes, self._kv, self._config, self._clock = routes, kv, config, clock

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
        header = request.read(RegisterBrokerRequest)
        _check_registration(header, request.body)
        body = read_registration(
            request.body, compressed=header.compressed, version=request.version
        )
        registration = self._registration(header, body, connection)
        is_new = self._routes.version_of(registration.key) is None
        master = self._routes.register(
            registration,
            self._clock.now_ms(),
            drops_other_topics=self._config.delete_topic_with_broker_registration
            and not header.partial,
        )
        if is_new:
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
            answer.master_addr = self._routes.address_for(
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

    def _registration(
        self, header: RegisterBrokerRequest, body: RegisterBrokerBody, connection: Connection
    ) -> BrokerRegistration:
        table = body.topic_config_serialize_wrapper
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
            version=table.data_version,
            topics=table.topic_config_table,
            mappings=table.topic_queue_mapping_info_map,
            advertised=parse_advertised(header.advertise) if header.advertise else Advertised(),
            channel=connection,
            is_partial=bool(header.partial),
        )

    def _order_topics(self) -> bytes | None:
        """What a broker is told of ordered topics; None if that is still to be encoded."""
        namespace = ORDER_TOPIC_NAMESPACE
        is_wanted = self._config.return_order_topic_config_to_broker
        if not is_wanted or self._kv.namespace(namespace) is None:
            return b""
        return self._kv.listing_now(namespace)

    def unregister(self, request: Command, connection: Connection) -> Command:
        """104: removes a broker that stops."""
        header = request.read(UnregisterBrokerRequest)
        key = BrokerKey(header.cluster_name, header.broker_addr)
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


def _check_registration(header: RegisterBrokerRequest, body: bytes) -> None:
    for name, value in (
        ("clusterName", header.cluster_name),
        ("brokerName", header.broker_name),
        ("brokerAddr", header.broker_addr),
    ):
        if not value.strip():
            raise ResponseError(
                ResponseCode.SYSTEM_ERROR, f"register broker failed: {name} is blank"
            )
    if header.body_crc32:
        found = zlib.crc32(body) & CRC_MASK
        if found != header.body_crc32:
            raise ResponseError(
                ResponseCode.SYSTEM_ERROR,
                f"crc32 not match: bodyCrc32 says {header.body_crc32}, the body has {found}; "
                f"it was damaged on its way, register again",
            )
