"""The operations of the control API on topics."""

from __future__ import annotations

from pocketmq.broker.topics.system_topics import system_topic_names
from pocketmq.console.web.operations import Call, Operation
from pocketmq.console.web.problems import ProblemError, not_found
from pocketmq.protocol.bodies.topics import TopicConfig
from pocketmq.protocol.errors import UsageError
from pocketmq.protocol.names.names import DLQ_PREFIX, RETRY_PREFIX
from pocketmq.runtime.text import counted
from pocketmq.testing.control.clients import ControlClients
from pocketmq.testing.control.models import Done, Topic, TopicRequest, Topics
from pocketmq.testing.core import Core
from pocketmq.testing.inspection.inspection import Inspection
from pocketmq.testing.settings import topic_config


class TopicCalls:
    """Carries out operations on topics of all brokers.

    Args:
        core: the cluster.
        inspection: reads the state of the brokers.
        clients: the control API's clients, which ask for routes again after a change.
    """

    def __init__(self, core: Core, inspection: Inspection, clients: ControlClients) -> None:
        self._core, self._inspection, self._clients = core, inspection, clients

    def operations(self) -> list[Operation]:
        """Returns the operations of this family."""
        return [
            Operation("GET", "/topics", "listTopics", "All topics.", self.listed, Topics),
            Operation(
                "GET", "/topics/{topic}", "getTopic", "One topic.", self.one, Topic,
            ),
            Operation(
                "PUT", "/topics/{topic}", "putTopic",
                "Make or change a topic; clients find it at once.",
                self.put, Topic, body=TopicRequest,
            ),
            Operation(
                "DELETE", "/topics/{topic}", "deleteTopic",
                "Delete a topic with its messages.", self.delete, Done,
            ),
            Operation(
                "POST", "/topics/{topic}/empty", "emptyTopic",
                "Remove a topic's messages and all groups' offsets in it.", self.empty, Done,
            ),
        ]  # fmt: skip

    async def listed(self, _: Call) -> Topics:
        """Lists all topics but the brokers' own and those of groups."""
        found = {
            name
            for name in self._core.names()[0] - self._system()
            if not name.startswith((RETRY_PREFIX, DLQ_PREFIX))
        }
        return Topics(topics=[self._topic(name) for name in sorted(found)])

    async def one(self, call: Call) -> Topic:
        """Shows a topic."""
        return self._topic(call.path["topic"])

    async def put(self, call: Call) -> Topic:
        """Makes or changes a topic."""
        name, request = call.path["topic"], call.body
        assert isinstance(request, TopicRequest)
        if name in self._system():
            raise UsageError(f"topic {name} is the brokers' own: choose another name")
        config = topic_config(name, {"queues": request.queues, **request.settings})
        await self._core.put([config], [])
        await self._clients.renew()
        return self._topic(name)

    async def delete(self, call: Call) -> Done:
        """Deletes a topic."""
        topic = self._topic(self._own(call))
        await self._core.remove({topic.name}, set())
        await self._clients.renew()
        return Done(
            done=f"topic {topic.name} is deleted, with {counted(topic.messages, 'message')}"
        )

    async def empty(self, call: Call) -> Done:
        """Empties a topic: deletes it and makes it again with its settings."""
        topic = self._topic(self._own(call))
        config = self._configs(topic.name)[0][1]
        await self._core.remove({topic.name}, set())
        await self._core.put([config], [])
        done = Done(
            done=f"topic {topic.name} is empty; it held {counted(topic.messages, 'message')}"
        )
        members = sorted(
            group
            for group in self._inspection.groups()
            if self._inspection.members(group) and topic.name in self._inspection.topics_of(group)
        )
        if members:
            done.warnings.append(
                f"offsets begin at 0 again, which consumers that run may notice as late as their "
                f"next rebalance (20 s): {', '.join(members)}; close consumers before"
            )
        return done

    def _own(self, call: Call) -> str:
        name = call.path["topic"]
        if name in self._system():
            raise ProblemError(
                403,
                "The topic is the brokers' own",
                f"topic {name} cannot be emptied or deleted by itself",
                "POST /reset empties the whole cluster",
            )
        return name

    def _topic(self, name: str) -> Topic:
        configs = self._configs(name)
        if not configs:
            raise not_found("topic", name, "GET /topics")
        return Topic(
            name=name,
            queues=configs[0][1].write_queue_nums,
            brokers=[broker for broker, _ in configs],
            messages=self._inspection.count(name),
        )

    def _configs(self, name: str) -> list[tuple[str, TopicConfig]]:
        return [
            (broker.config.broker_name, config)
            for broker in self._core.brokers()
            if (config := broker.topics.get(name)) is not None
        ]

    def _system(self) -> frozenset[str]:
        found: frozenset[str] = frozenset()
        for slot in self._core.slots.values():
            found |= system_topic_names(slot.config.broker_cluster_name, slot.set_name)
        return found
