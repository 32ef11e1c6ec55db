"""Handlers of routes: 105 of a topic, 106 all brokers, 304 system topics, 901 a broker name."""

from __future__ import annotations

from pocketmq.namesrv.config import NamesrvConfig
from pocketmq.namesrv.route_answers import RouteAnswers
from pocketmq.namesrv.route_table import RouteTable
from pocketmq.protocol.bodies.routes import BrokerMemberGroup
from pocketmq.protocol.bodies.topics import TopicList
from pocketmq.protocol.codes import ResponseCode, Version
from pocketmq.protocol.errors import ResponseError
from pocketmq.protocol.names.advertise import caller_address
from pocketmq.protocol.requests.nameserver import (
    BrokerMemberGroupRequest,
    ClusterInfoRequest,
    ClusterInfoResponse,
    RouteRequest,
    SystemTopicListRequest,
)
from pocketmq.protocol.wire.command import Command
from pocketmq.runtime import VERSION
from pocketmq.runtime.clock import Clock
from pocketmq.transport.connection import Connection, Handler


class RouteHandlers:
    """Answers requests for addresses, which depend on the caller."""

    def __init__(
        self, routes: RouteTable, answers: RouteAnswers, config: NamesrvConfig, clock: Clock
    ) -> None:
        self._routes, self._answers, self._config, self._clock = routes, answers, config, clock
        self._started = clock.monotonic()

    def table(self) -> dict[int, Handler]:
        """Returns the handlers by request code."""
        return {
            RouteRequest.code: self.topic_route,
            ClusterInfoRequest.code: self.cluster_info,
            BrokerMemberGroupRequest.code: self.member_group,
            SystemTopicListRequest.code: self.system_topics,
        }

    def topic_route(self, request: Command, connection: Connection) -> Command:
        """105: answers with a topic's queues and brokers."""
        self._check_ready()
        header = request.read(RouteRequest)
        zone = header.zone_name or "" if (header.zone_mode or "").lower() == "true" else ""
        body = self._answers.topic(
            header.topic,
            caller_address(connection.remote_host),
            quote_keys=request.version >= Version.V4_9_4 or bool(header.accept_standard_json_only),
            zone=zone.strip(),
        )
        if body is None:
            raise ResponseError(
                ResponseCode.TOPIC_NOT_EXIST,
                f"No topic route info in name server for the topic: {header.topic}. Create the "
                f"topic, or send to it with autoCreateTopicEnable on; if a broker has it, check "
                f"that the broker runs and that its namesrvAddr names this name server",
            )
        return Command(ResponseCode.SUCCESS, body=body)

    def _check_ready(self) -> None:
        """Refuses a request while brokers may not have had the time to register."""
        if not self._config.need_wait_for_service:
            return
        left_s = self._config.wait_seconds_for_service - (self._clock.monotonic() - self._started)
        if left_s > 0:
            raise ResponseError(
                ResponseCode.SYSTEM_ERROR,
                f"name server not ready: it waits another {left_s:.0f} s for brokers to register "
                f"(needWaitForService)",
            )

    def cluster_info(self, request: Command, connection: Connection) -> Command:
        """106: answers with all clusters and brokers."""
        info = self._answers.cluster_info(caller_address(connection.remote_host))
        header = ClusterInfoResponse(pocketmq_version=VERSION)
        return Command(ResponseCode.SUCCESS, header=header, body=info.encode())

    def member_group(self, request: Command, connection: Connection) -> Command:
        """901: answers with the addresses of one broker name."""
        header = request.read(BrokerMemberGroupRequest)
        group = self._answers.member_group(
            header.cluster_name, header.broker_name, caller_address(connection.remote_host)
        )
        return Command(
            ResponseCode.SUCCESS, body=BrokerMemberGroup(broker_member_group=group).encode()
        )

    def system_topics(self, request: Command, connection: Connection) -> Command:
        """304: answers with the names of clusters and brokers, and one broker's address."""
        broker = self._routes.any_broker()
        caller = caller_address(connection.remote_host)
        names = TopicList(
            topic_list=self._routes.system_topics(),
            broker_addr=None if broker is None else self._routes.live.address_for(broker, caller),
        )
        return Command(ResponseCode.SUCCESS, body=names.encode())
