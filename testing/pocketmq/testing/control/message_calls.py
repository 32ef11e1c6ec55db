"""The operations of the control API that show messages without consuming them, and publish."""

from __future__ import annotations

import msgspec

from pocketmq.console.api.sending import send_all
from pocketmq.console.web.operations import Call, Operation
from pocketmq.console.web.problems import ProblemError
from pocketmq.protocol.messages.message import ReceivedMessage
from pocketmq.protocol.messages.message_json import message_document
from pocketmq.protocol.names.names import dlq_topic
from pocketmq.runtime.text import counted
from pocketmq.testing.control.clients import ControlClients
from pocketmq.testing.control.models import (
    Messages,
    PeekQuery,
    PublishAnswer,
    PublishedMessage,
    PublishRequest,
    StoredMessage,
)
from pocketmq.testing.inspection.inspection import Inspection


class MessageCalls:
    """Shows and publishes messages.

    Args:
        inspection: reads the state of the brokers.
        clients: the control API's clients, which publish.
    """

    def __init__(self, inspection: Inspection, clients: ControlClients) -> None:
        self._inspection, self._clients = inspection, clients

    def operations(self) -> list[Operation]:
        """Returns the operations of this family."""
        return [
            Operation(
                "GET", "/topics/{topic}/messages", "peek",
                "Messages of a topic, oldest first; nothing is consumed and no offset moves.",
                self.peek, Messages, query=PeekQuery,
            ),
            Operation(
                "POST", "/topics/{topic}/messages", "publish",
                "Publish messages, as a client of the cluster: faults fire for it as for others.",
                self.publish, PublishAnswer, body=PublishRequest, status=201,
            ),
            Operation(
                "GET", "/groups/{group}/dead-letters", "deadLetters",
                "Messages that were given up for a group, oldest first.",
                self.dead_letters, Messages, query=PeekQuery,
            ),
        ]  # fmt: skip

    async def peek(self, call: Call) -> Messages:
        """Shows messages of a topic."""
        return await self._shown(call.path["topic"], call.query)

    async def dead_letters(self, call: Call) -> Messages:
        """Shows a group's dead letters."""
        return await self._shown(dlq_topic(call.path["group"]), call.query)

    async def _shown(self, topic: str, query: PeekQuery) -> Messages:
        inspection, wanted = self._inspection, query.wait_for

        def fitting() -> list[ReceivedMessage]:
            return [
                message
                for message in inspection.stored(topic)
                if query.key in (None, *message.keys) and query.tag in (None, message.tags)
            ]

        def is_there() -> bool:
            return inspection.count(topic) >= wanted and len(fitting()) >= wanted

        if wanted and not await inspection.comes_true(is_there, query.timeout_ms / 1000):
            raise did_not_come(topic, wanted, len(fitting()), query.timeout_ms)
        if not (wanted or query.missing_ok):
            inspection.check_topic(topic)
        found = fitting()
        part = found[-query.limit :] if query.newest else found[: query.limit]
        return Messages(total=len(found), messages=[_stored(message) for message in part])

    async def publish(self, call: Call) -> PublishAnswer:
        """Publishes messages one after the other; checks all of them before the first is sent."""
        topic, request = call.path["topic"], call.body
        assert isinstance(request, PublishRequest)
        producer = await self._clients.producer()
        done = [
            PublishedMessage(
                status=result.status.name,
                msg_id=result.msg_id,
                broker=result.queue.broker_name,
                queue=result.queue.queue_id,
                offset=result.queue_offset,
            )
            for result in await send_all(producer, topic, request.messages)
        ]
        return PublishAnswer(messages=done)


def did_not_come(topic: str, wanted: int, found: int, timeout_ms: int) -> ProblemError:
    """Makes the error for messages that did not come in time."""
    return ProblemError(
        409,
        "It has not come",
        f"topic {topic} should hold {counted(wanted, 'message')} and holds {found}, after "
        f"{timeout_ms} ms",
        "see what the topic holds and what waits for its time (GET /clock); delays and retries "
        "come with POST /clock/advance",
    )


def _stored(message: ReceivedMessage) -> StoredMessage:
    document = message_document(message) | {"reconsumeTimes": message.reconsume_times}
    return msgspec.convert(document, StoredMessage)
