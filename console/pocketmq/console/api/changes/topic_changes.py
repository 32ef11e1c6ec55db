"""The operations that create, change and delete topics."""

from __future__ import annotations

import asyncio

from pocketmq.client import Admin
from pocketmq.client.errors import UnknownTopicError
from pocketmq.console.api.bodies.topic_changes import (
    AffectedGroup,
    NewTopic,
    TopicChange,
    TopicDeletion,
)
from pocketmq.console.api.bodies.topics import Deleted, Topic
from pocketmq.console.api.callers import Callers, Clients
from pocketmq.console.api.changes.members import member_ids
from pocketmq.console.api.paths import PREFIX
from pocketmq.console.api.topic_calls import topic_of
from pocketmq.console.web.operations import Call, Operation
from pocketmq.console.web.problems import ProblemError, not_found
from pocketmq.protocol.errors import UsageError
from pocketmq.protocol.flags import PERM_READ, PERM_WRITE


class TopicChanges:
    """Creates, changes and deletes topics.

    Args:
        callers: their clients.
    """

    def __init__(self, callers: Callers) -> None:
        self._callers = callers

    def operations(self) -> list[Operation]:
        """Returns the operations of this family."""
        serve = self._callers.serve
        one = f"{PREFIX}/topics/{{topic}}"
        return [
            Operation(
                "POST", one, "createTopic", "Create a topic; 409 if there is one.",
                serve(self.create), Topic, body=NewTopic, status=201,
            ),
            Operation(
                "PUT", one, "changeTopic", "Change settings of a topic.",
                serve(self.change), Topic, body=TopicChange,
            ),
            Operation(
                "GET", f"{one}/deletion", "previewTopicDeletion",
                "What would go with a topic: messages, and the offsets of groups.",
                serve(self.deletion), TopicDeletion,
            ),
            Operation(
                "DELETE", one, "deleteTopic", "Delete a topic with its messages.",
                serve(self.delete), Deleted,
            ),
        ]  # fmt: skip

    async def create(self, clients: Clients, call: Call) -> Topic:
        """Creates a topic on all brokers."""
        self._callers.check_writes()
        name, new = call.path["topic"], call.body
        assert isinstance(new, NewTopic)
        admin = clients.admin
        if name in await admin.topics():
            raise ProblemError(
                409, "The topic exists", f"there is a topic {name!r}", "choose another name"
            )
        await admin.create_topic(
            name,
            new.queues,
            read_queues=new.read_queues,
            write_queues=new.write_queues,
            perm=_permission(new.is_readable, new.is_writable),
            order=new.order,
            attributes=_attributes(new.attributes),
        )
        return await topic_of(admin, name)

    async def change(self, clients: Clients, call: Call) -> Topic:
        """Changes a topic on the brokers that have it."""
        self._callers.check_writes()
        change = call.body
        assert isinstance(change, TopicChange)
        admin = clients.admin
        topic = await self._own(admin, call.path["topic"], "changed")
        brokers = list(topic.settings) if change.broker is None else [change.broker]
        if any(broker not in topic.settings for broker in brokers):
            raise UsageError(
                f"{topic.name} is not on broker {change.broker}, but on {', '.join(topic.settings)}"
            )
        masters = (await admin.topic_route(topic.name)).broker_datas
        addresses = {data.broker_name: data.master_address for data in masters}
        for broker in brokers:
            now = topic.settings[broker]
            may_read = now.is_readable if change.is_readable is None else change.is_readable
            may_write = now.is_writable if change.is_writable is None else change.is_writable
            await admin.update_topic(
                topic.name,
                read_queues=change.read_queues,
                write_queues=change.write_queues,
                perm=_permission(may_read, may_write),
                order=change.order,
                attributes=_attributes(change.attributes),
                broker_addr=addresses[broker],
            )
        return await topic_of(admin, topic.name)

    async def deletion(self, clients: Clients, call: Call) -> TopicDeletion:
        """Shows what would go with a topic."""
        admin = clients.admin
        topic = await topic_of(admin, call.path["topic"])
        groups = await asyncio.gather(
            *(_affected(admin, group, topic.name) for group in topic.groups)
        )
        times = [queue.last_stored_ms for queue in topic.queues if queue.last_stored_ms]
        return TopicDeletion(
            topic=topic.name,
            messages=topic.messages,
            newest_ms=max(times, default=None),
            groups=groups,
        )

    async def delete(self, clients: Clients, call: Call) -> Deleted:
        """Deletes a topic."""
        self._callers.check_writes()
        admin = clients.admin
        topic = await self._own(admin, call.path["topic"], "deleted")
        await admin.delete_topic(topic.name)
        return Deleted(deleted=topic.name, messages=topic.messages)

    async def _own(self, admin: Admin, name: str, done: str) -> Topic:
        """A topic of applications.

        Raises:
            ProblemError: 403, it belongs to the brokers; 404, there is none.
        """
        topic = await topic_of(admin, name)
        if topic.kind == "system":
            raise ProblemError(
                403,
                "The topic is the brokers' own",
                f"topic {name} cannot be {done}",
                "choose a topic of applications",
            )
        return topic


async def _affected(admin: Admin, group: str, topic: str) -> AffectedGroup:
    try:
        lags = await admin.consume_stats(group, topic)
    except UnknownTopicError as e:
        raise not_found("topic", topic, f"GET {PREFIX}/topics") from e
    left = sum(lag.lag for lag in lags)
    return AffectedGroup(group=group, members=len(await member_ids(admin, group)), left=left)


def _permission(may_read: bool, may_write: bool) -> int:
    return PERM_READ * may_read | PERM_WRITE * may_write


def _attributes(given: dict[str, str]) -> str | None:
    """Attributes as brokers read them; those without a value are removed."""
    texts = [f"+{name}={value}" if value else f"-{name}" for name, value in given.items()]
    return ",".join(texts) or None
