"""Messages by their place and by their time."""

from __future__ import annotations

from pocketmq.client.admin.calls import AdminCalls
from pocketmq.protocol.ids import parse_offset_msg_id
from pocketmq.protocol.message import MessageQueue, ReceivedMessage
from pocketmq.protocol.records import decode_records
from pocketmq.protocol.requests.offsets import ViewMessageRequest


class MessageAdmin(AdminCalls):
    """What `Admin` does with messages."""

    async def view_message(self, offset_msg_id: str) -> ReceivedMessage:
        """A message by the address that its id carries.

        A compressed body that cannot be unpacked comes as it is stored.

        Raises:
            UsageError: it is no offset message id.
            ResponseError: nothing is stored there.
        """
        place = parse_offset_msg_id(offset_msg_id)
        request = ViewMessageRequest(offset=place.physical_offset)
        answer = await self._ask(place.store_host, request)
        return next(decode_records(answer.body, on_damaged=lambda message, error: None))

    async def search_offset(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """The first offset of a queue stored at that time or later."""
        return await self._offsets.at_time(queue, timestamp_ms)
