"""All families of operations of a control API, which share locks, clients and faults."""

from __future__ import annotations

import asyncio

from pocketmq.console.web.operations import Operation
from pocketmq.protocol.names.namespaces import Namespace
from pocketmq.testing.control.clients import ControlClients
from pocketmq.testing.control.clock_calls import ClockCalls
from pocketmq.testing.control.cluster_calls import NO_ENDS, ClusterCalls, Ends
from pocketmq.testing.control.fault_calls import FaultCalls
from pocketmq.testing.control.group_calls import GroupCalls
from pocketmq.testing.control.message_calls import MessageCalls
from pocketmq.testing.control.topic_calls import TopicCalls
from pocketmq.testing.core import Core
from pocketmq.testing.inspection.inspection import Inspection


class ControlCalls:
    """Carries out what a cluster for tests is asked, over HTTP or by its console's pages.

    Args:
        core: the cluster.
        ends: the calls to the process that runs the cluster.

    Attributes:
        clients: publish and administer.
        cluster, clock, faults: families of operations.
    """

    def __init__(self, core: Core, ends: Ends = NO_ENDS) -> None:
        self._core, self._inspection = core, Inspection(core, Namespace(""))
        turn = asyncio.Lock()
        self.clients = ControlClients(core)
        self.faults = FaultCalls(core)
        self.clock = ClockCalls(core, self._inspection, turn)
        self.cluster = ClusterCalls(core, self.clock, self.faults, self.clients, turn, ends)

    def operations(self) -> list[Operation]:
        """Returns all operations."""
        core, inspection = self._core, self._inspection
        return [
            *self.cluster.operations(),
            *TopicCalls(core, inspection, self.clients).operations(),
            *MessageCalls(inspection, self.clients).operations(),
            *GroupCalls(core, inspection, self.clients).operations(),
            *self.clock.operations(),
            *self.faults.operations(),
        ]
