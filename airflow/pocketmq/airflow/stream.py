"""Messages for assets, acknowledged when their events are in Airflow's database."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Sequence
from typing import Any

from airflow.triggers.shared_stream import AdvanceItem, SharedStreamProducer

from pocketmq.airflow.source import MessageSource
from pocketmq.protocol.messages.message import ReceivedMessage
from pocketmq.protocol.messages.message_json import message_document


class MessageStream(SharedStreamProducer):
    """Feeds the triggers of one topic and group, and settles what became of each message.

    Args:
        new_source: makes the source, in the triggerer's loop.
    """

    def __init__(self, new_source: Callable[[], Awaitable[MessageSource]]) -> None:
        self._new_source = new_source
        self._source: MessageSource | None = None

    async def open_stream(self) -> AsyncIterator[tuple[dict[str, Any], ReceivedMessage]]:
        """Yields each message as the document that events carry, and as it came."""
        self._source = await self._new_source()
        await self._source.start()
        async for message in self._source.messages():
            yield message_document(message), message

    async def advance(self, batch: Sequence[AdvanceItem]) -> None:
        """Acknowledges what all triggers took; the rest comes again, or is a dead letter."""
        source = self._source
        assert source is not None
        for message, outcome in batch:
            if outcome.is_clean:
                source.acknowledge(message)
            elif outcome.rejected:
                await source.give_up(message, "rejected by a trigger of Airflow")
            else:
                await source.refuse(message, "a trigger of Airflow took too long, or was gone")

    def get_advance_lane(self, broker_payload: ReceivedMessage) -> Hashable:
        """Returns a lane for each message: none waits for another."""
        return id(broker_payload)

    async def aclose(self) -> None:
        """Gives back what is not acknowledged."""
        if self._source is not None:
            await self._source.close()
