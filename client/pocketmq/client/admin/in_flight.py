"""Administration of popped messages: which are in flight, and until when."""

from __future__ import annotations

from pocketmq.client.admin.calls import AdminCalls
from pocketmq.protocol.bodies.popping import InFlightTable, PoppedQueue
from pocketmq.protocol.requests.extensions.in_flight import InFlightRequest
from pocketmq.protocol.requests.popping import ALL_QUEUES


class InFlightAdmin(AdminCalls):
    """The methods of `Admin` for popped messages."""

    async def in_flight(
        self,
        group: str,
        topic: str,
        broker_addr: str,
        *,
        queue_id: int = ALL_QUEUES,
        offset: int = 0,
        count_max: int = 1000,
    ) -> list[PoppedQueue]:
        """Returns what a group has popped of a topic and not acknowledged, by queue.

        Args:
            group, topic: whose messages; the topic may be a retry topic.
            broker_addr: a broker of this project.
            queue_id: of one queue; by default of all that the group pops.
            offset: the first one that is wanted, of one queue.
            count_max: messages that are listed, 1,000 at the most.

        Raises:
            ResponseError: 3, the broker is RocketMQ's, which does not tell this; 16, the user may
                not see the group or the topic.
        """
        request = InFlightRequest(
            consumer_group=group, topic=topic, queue_id=queue_id, offset=offset, count=count_max
        )
        answer = await self._ask(broker_addr, request)
        return InFlightTable.decode(answer.body).queues
