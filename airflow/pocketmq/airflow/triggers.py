"""Triggers of Airflow: they fire for messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent
from asgiref.sync import sync_to_async

from pocketmq.airflow.hook import PocketMQHook
from pocketmq.airflow.source import MessageSource
from pocketmq.airflow.target import Target, target_of
from pocketmq.protocol.messages.message_json import message_document

if TYPE_CHECKING:
    from pocketmq.airflow.stream import MessageStream
    from pocketmq.protocol.messages.message import ReceivedMessage


TELLS_WHAT_IS_KEPT = hasattr(BaseEventTrigger, "create_shared_stream_producer")
"""Whether triggers learn when their events are in Airflow's database: since Airflow 3.3."""


class MessageTrigger(BaseEventTrigger):
    """Fires for each message of a topic; for an asset's watcher.

    Since Airflow 3.3 a message is acknowledged when its event is in Airflow's database; with
    Airflow before, when the triggerer has taken the event. A message that is not acknowledged
    comes again. The payload of an event is the message's document, as ``pocketmq consume -o json``
    has it: body or bodyBase64, keys, tags, properties, topic, msgId and so on.

    Args:
        topic: need not exist yet.
        group: of all who share the messages: each message fires one trigger of the group.
        expression: tags, such as ``"new || changed"``.
        conn_id: the connection of Airflow.
        namesrv: name servers in place of the connection, ``"a:9876;b:9876"``.
        invisible_ms: for how long nobody else gets a message when the triggerer was killed.
        held_max: how many messages may be not acknowledged.
    """

    supports_triggerer_queue = True

    def __init__(
        self,
        topic: str,
        group: str,
        expression: str = "*",
        conn_id: str = PocketMQHook.default_conn_name,
        namesrv: str | None = None,
        invisible_ms: int = 60_000,
        held_max: int = 64,
    ) -> None:
        super().__init__()
        self._arguments = {
            "topic": topic,
            "group": group,
            "expression": expression,
            "conn_id": conn_id,
            "namesrv": namesrv,
            "invisible_ms": invisible_ms,
            "held_max": held_max,
        }
        self._source: MessageSource | None = None

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Returns the path of the class, and the arguments."""
        cls = type(self)
        return f"{cls.__module__}.{cls.__qualname__}", dict(self._arguments)

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Fires, and acknowledges each message when the triggerer comes for the next.

        Raises:
            ConfigError, IllegalNameError: the connection or an argument does not fit.
        """
        self._source = source = await _new_source(self._arguments)
        async with source, aclosing(source.messages()) as messages:
            async for message in messages:
                yield TriggerEvent(message_document(message))
                source.acknowledge(message)

    async def cleanup(self) -> None:
        """Gives back what is not acknowledged."""
        source, self._source = self._source, None
        if source is not None:
            await source.close()

    # -- since Airflow 3.3 --------------------------------------------------------------------

    def shared_stream_key(self) -> Hashable | None:
        """Returns what triggers have in common that share their messages: all arguments.

        None for triggers that run by themselves: Airflow before 3.3 has no acknowledgements.
        """
        if not TELLS_WHAT_IS_KEPT:
            return None
        return tuple(sorted(self._arguments.items(), key=lambda item: item[0]))

    @classmethod
    def create_shared_stream_producer(cls, kwargs: dict[str, Any]) -> MessageStream:
        """Makes what pops the messages, and acknowledges them when their events are kept."""
        from pocketmq.airflow.stream import MessageStream

        return MessageStream(partial(_new_source, kwargs))

    async def filter_shared_stream(
        self, shared_stream: AsyncIterator[dict[str, Any]]
    ) -> AsyncIterator[TriggerEvent]:
        """Fires for each message."""
        async for document in shared_stream:
            yield TriggerEvent(document)


class AwaitMessageTrigger(MessageTrigger):
    """Fires for one message, and is done; for a task that waits.

    Since Airflow 3.3 the message is acknowledged when the event is in Airflow's database: the
    triggerer ends a trigger whose task waits no longer, and calls `on_kill`. With Airflow before it
    is acknowledged when the triggerer has taken the event.

    Args:
        As of `MessageTrigger`.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._fired: ReceivedMessage | None = None

    def shared_stream_key(self) -> Hashable | None:
        """Returns None: two tasks that wait get two messages."""
        return None

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Fires, and waits until the triggerer ends it; `cleanup` closes what is open.

        Raises:
            ConfigError, IllegalNameError: the connection or an argument does not fit.
        """
        self._source = source = await _new_source({**self._arguments, "held_max": 1})
        await source.start()
        async with aclosing(source.messages()) as messages:
            message = self._fired = await anext(messages)
            yield TriggerEvent(message_document(message))
            if TELLS_WHAT_IS_KEPT:
                await asyncio.Event().wait()
            source.acknowledge(message)

    async def on_kill(self) -> None:
        """Acknowledges the message: its task waits no longer."""
        if self._source is not None and self._fired is not None:
            self._source.acknowledge(self._fired)


async def _new_source(arguments: dict[str, Any]) -> MessageSource:
    rest = dict(arguments)
    namesrv, conn_id = rest.pop("namesrv"), rest.pop("conn_id")
    if namesrv is not None:
        return MessageSource(Target(namesrv.split(";"), {}), **rest)
    # The connection comes from Airflow's server: a blocking call, which may not stop all triggers.
    connection = await sync_to_async(PocketMQHook.get_connection)(conn_id)
    return MessageSource(target_of(connection), **rest)
