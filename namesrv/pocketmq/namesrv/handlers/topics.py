"""Handlers of topics as the name server knows them: lists, permissions, changes by hand."""

from __future__ import annotations

import logging

from pocketmq.namesrv.config import NamesrvConfig
from pocketmq.namesrv.route_table import RouteTable
from pocketmq.namesrv.topic_queue_table import UNIT, UNIT_SUB
from pocketmq.protocol.bodies.routes import TopicRoute
from pocketmq.protocol.bodies.topics import TopicList
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import ResponseError
from pocketmq.protocol.requests.nameserver import (
    AddWritePermRequest,
    AddWritePermResponse,
    DeleteTopicInNamesrvRequest,
    RegisterTopicRequest,
    TopicListRequest,
    TopicsByClusterRequest,
    UnitSubOnlyTopicListRequest,
    UnitSubTopicListRequest,
    UnitTopicListRequest,
    WipeWritePermRequest,
    WipeWritePermResponse,
)
from pocketmq.protocol.wire.command import Command
from pocketmq.transport.connection import Connection, Handler

log = logging.getLogger("pocketmq.namesrv")


class TopicHandlers:
    """Lists and changes topics in the route table, without asking brokers."""

    def __init__(self, routes: RouteTable, config: NamesrvConfig) -> None:
        self._routes, self._config = routes, config

    def table(self) -> dict[int, Handler]:
        """Returns the handlers by request code."""
        return {
            TopicListRequest.code: self.all_topics,
            TopicsByClusterRequest.code: self.topics_of_cluster,
            UnitTopicListRequest.code: self.unit_topics,
            UnitSubTopicListRequest.code: self.unit_sub_topics,
            UnitSubOnlyTopicListRequest.code: self.unit_sub_only_topics,
            RegisterTopicRequest.code: self.register_topic,
            DeleteTopicInNamesrvRequest.code: self.delete_topic,
            WipeWritePermRequest.code: self.wipe_write_perm,
            AddWritePermRequest.code: self.add_write_perm,
        }

    def all_topics(self, request: Command, connection: Connection) -> Command:
        """206: answers with the names of all topics."""
        if not self._config.enable_all_topic_list:
            raise _disabled("enableAllTopicList")
        return _names(self._routes.topics.topics())

    def topics_of_cluster(self, request: Command, connection: Connection) -> Command:
        """224: answers with the topics on a cluster's brokers; none for an unknown cluster."""
        self._check_lists()
        return _names(self._routes.topics_of_cluster(request.read(TopicsByClusterRequest).cluster))

    def unit_topics(self, request: Command, connection: Connection) -> Command:
        """311: answers with the topics that have the unit flag."""
        self._check_lists()
        return _names(self._routes.topics.topics_with_flags(UNIT))

    def unit_sub_topics(self, request: Command, connection: Connection) -> Command:
        """312: answers with the topics that have the unit-subscription flag."""
        self._check_lists()
        return _names(self._routes.topics.topics_with_flags(UNIT_SUB))

    def unit_sub_only_topics(self, request: Command, connection: Connection) -> Command:
        """313: answers with the topics that have the unit-subscription flag, but no unit flag."""
        self._check_lists()
        return _names(self._routes.topics.topics_with_flags(UNIT_SUB, absent=UNIT))

    def _check_lists(self) -> None:
        if not self._config.enable_topic_list:
            raise _disabled("enableTopicList")

    def register_topic(self, request: Command, connection: Connection) -> Command:
        """217: adds queue data to a topic."""
        topic = request.read(RegisterTopicRequest).topic
        if request.body:
            self._routes.register_topic(topic, TopicRoute.of_request(request.body).queue_datas)
        return Command(ResponseCode.SUCCESS)

    def delete_topic(self, request: Command, connection: Connection) -> Command:
        """216: removes a topic, from one cluster if one is named."""
        header = request.read(DeleteTopicInNamesrvRequest)
        self._routes.delete_topic(header.topic, header.cluster_name)
        log.info("topic %s was deleted by %s", header.topic, connection.remote_address)
        return Command(ResponseCode.SUCCESS)

    def wipe_write_perm(self, request: Command, connection: Connection) -> Command:
        """205: makes all topics of a broker read-only until the broker registers a change."""
        broker = request.read(WipeWritePermRequest).broker_name
        count = self._routes.wipe_write_perm(broker)
        log.info("%s made %d topics of %s read-only", connection.remote_address, count, broker)
        return Command(ResponseCode.SUCCESS, header=WipeWritePermResponse(wipe_topic_count=count))

    def add_write_perm(self, request: Command, connection: Connection) -> Command:
        """327: makes all topics of a broker readable and writable until it registers a change."""
        broker = request.read(AddWritePermRequest).broker_name
        count = self._routes.add_write_perm(broker)
        log.info("%s made %d topics of %s writable", connection.remote_address, count, broker)
        return Command(ResponseCode.SUCCESS, header=AddWritePermResponse(add_topic_count=count))


def _names(topics: list[str]) -> Command:
    return Command(ResponseCode.SUCCESS, body=TopicList(topic_list=topics).encode())


def _disabled(key: str) -> ResponseError:
    return ResponseError(ResponseCode.SYSTEM_ERROR, f"disable: {key} is off on this name server")
