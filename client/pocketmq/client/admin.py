"""Administration: topics, groups, clusters, brokers, name-server tables."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import msgspec
from typing_extensions import Self

from pocketmq.client.errors import ClosedError, UnknownTopicError
from pocketmq.client.instance import ClientInstance, InstanceUse, NamesrvList
from pocketmq.protocol.bodies.clients import (
    ConsumerConnection,
    GroupConfig,
    ProducerConnection,
)
from pocketmq.protocol.bodies.routes import ClusterInfo, TopicRoute
from pocketmq.protocol.bodies.topics import (
    ConsumeStats,
    KVTable,
    TopicConfig,
    TopicConfigTable,
    TopicList,
    TopicStatsTable,
)
from pocketmq.protocol.errors import (
    NotFoundError,
    OperatingError,
    ResponseError,
    TopicMissingError,
    UsageError,
)
from pocketmq.protocol.flags import PERM_READ, PERM_WRITE
from pocketmq.protocol.header import RequestHeader
from pocketmq.protocol.message import MessageQueue, ReceivedMessage
from pocketmq.protocol.names import AUTO_CREATE_TOPIC, check_group, check_topic, is_system_topic
from pocketmq.protocol.ids import parse_offset_msg_id
from pocketmq.protocol.records import decode_records
from pocketmq.transport.clock import Clock
