"""The push consumer: messages come to a listener, queues are shared among the group's members."""

from __future__ import annotations

import asyncio
import logging
from random import Random
from typing import Any

from typing_extensions import Self

from pocketmq.client.assignment import Assignment
from pocketmq.client.dispatch import Dispatcher, Listener
from pocketmq.client.errors import ClosedError
from pocketmq.client.instance import ClientInstance, InstanceUse, NamesrvList
from pocketmq.client.offsets import RemoteOffsets, StartPoint
from pocketmq.client.pulling import Puller
from pocketmq.client.queue_loop import FlowLimits, QueueLoop
from pocketmq.client.queue_offsets import QueueOffsets
from pocketmq.client.rebalance import AllocateStrategy, allocate_averagely
from pocketmq.client.settings import InstanceSettings, PushSettings, take_settings
from pocketmq.protocol.bodies.clients import (
    CLUSTERING,
    CONSUME_PASSIVELY,
    SUBSCRIBE_ALL,
    ConsumerData,
    Subscription,
)
from pocketmq.protocol.errors import ConfigError
from pocketmq.protocol.message import MessageQueue
from pocketmq.protocol.names import check_group, check_topic
from pocketmq.transport.clock import Clock
from pocketmq.transport.tasks import Tasks, repeat
