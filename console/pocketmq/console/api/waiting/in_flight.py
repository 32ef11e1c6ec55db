"""The operation that lists popped messages: who has them is not known, until when is."""

from __future__ import annotations

from msgspec import field

from pocketmq.client import Admin
from pocketmq.client.errors import UnknownTopicError
from pocketmq.console.api.callers import Callers, Clients
from pocketmq.console.api.paths import PREFIX
from pocketmq.console.api.reach import PartialBody
from pocketmq.console.web.bodies import Count, RequestBody, ResponseBody
from pocketmq.console.web.operations import Call, Operation
from pocketmq.console.web.problems import not_found
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import NoPermissionError, ResponseError, TopicMissingError
from pocketmq.protocol.names.names import pop_retry_topic, pop_retry_topic_v2

LISTED_MAX = 1000
"""Messages of one answer."""


class InFlightQuery(RequestBody):
    """Of which topic.

    Attributes:
        topic: its name; the topics for further attempts are looked at, too.
    """

    topic: str


class InFlightMessage(ResponseBody):
    """A message that is popped and not acknowledged.

    Attributes:
        due_ms: when others of the group may get it, by the broker's clock.
        popped_ms: when it was popped, or its invisible time last set.
        is_ordered: whether its queue is blocked until then.
    """

    topic: str
    broker: str
    queue: int
    offset: int
    due_ms: int
    popped_ms: int
    is_ordered: bool


class InFlight(PartialBody):
    """Messages in flight.

    Attributes:
        total: how many there are.
        messages: the first of each queue.
        untold: brokers that do not tell: RocketMQ's.
    """

    group: str
    topic: str
    total: Count
    messages: list[InFlightMessage]
    untold: list[str] = field(default_factory=list)


class InFlightCalls:
    """Lists what groups have popped.

    Args:
        callers: their clients.
    """

    def __init__(self, callers: Callers) -> None:
        self._callers = callers

    def operations(self) -> list[Operation]:
        """Returns the operations of this family."""
        return [
            Operation(
                "GET", f"{PREFIX}/groups/{{group}}/in-flight", "listInFlight",
                "Messages of a topic that members of a group have popped and not acknowledged, and "
                "until when they are invisible to the others.",
                self._callers.serve(self.in_flight), InFlight, query=InFlightQuery,
            ),
        ]  # fmt: skip

    async def in_flight(self, clients: Clients, call: Call) -> InFlight:
        """Lists messages in flight."""
        group, query = call.path["group"], call.query
        assert isinstance(query, InFlightQuery)
        found = InFlight(group=group, topic=query.topic, total=0, messages=[])
        try:
            await self._add(clients.admin, found, query.topic)
        except UnknownTopicError as e:
            raise not_found("topic", query.topic, f"GET {PREFIX}/topics") from e
        for topic in (pop_retry_topic(group, query.topic), pop_retry_topic_v2(group, query.topic)):
            try:
                await self._add(clients.admin, found, topic)
            except (UnknownTopicError, TopicMissingError):
                continue
        found.messages.sort(key=lambda one: one.due_ms)
        return found

    async def _add(self, admin: Admin, found: InFlight, topic: str) -> None:
        route = await admin.topic_route(topic)
        for data in sorted(route.broker_datas, key=lambda data: data.broker_name):
            if data.master_address is None:
                continue
            left = LISTED_MAX - len(found.messages)
            try:
                queues = await admin.in_flight(
                    found.group, topic, data.master_address, count_max=left
                )
            except NoPermissionError:
                raise
            except ResponseError as e:
                if e.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                    raise
                if data.broker_name not in found.untold:
                    found.untold.append(data.broker_name)
                continue
            for queue in queues:
                found.total += queue.count
                found.messages += [
                    InFlightMessage(
                        topic=topic,
                        broker=data.broker_name,
                        queue=queue.queue_id,
                        offset=offset,
                        due_ms=due_ms,
                        popped_ms=popped_ms,
                        is_ordered=queue.is_ordered,
                    )
                    for offset, due_ms, popped_ms in zip(
                        queue.offsets, queue.due_ms, queue.pop_ms, strict=True
                    )
                ]
