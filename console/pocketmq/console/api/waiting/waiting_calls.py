"""The operations on messages that wait."""

from __future__ import annotations

import asyncio

from pocketmq.client.errors import UnknownTopicError
from pocketmq.console.api.bodies.messages import BrowseQuery
from pocketmq.console.api.callers import Callers, Clients
from pocketmq.console.api.finding.browsing import Found, browse
from pocketmq.console.api.finding.messages import shown
from pocketmq.console.api.paths import PREFIX
from pocketmq.console.api.waiting.bodies import (
    Recalled,
    WaitingMessage,
    WaitingMessages,
    WaitingQuery,
)
from pocketmq.console.api.waiting.halves import EndedHalves
from pocketmq.console.api.waiting.looks import (
    ASKED_AT_ONCE_MAX,
    TOPICS,
    Waiting,
    due_ms_of,
    level_cursor,
    number_in,
    records_of,
)
from pocketmq.console.web.operations import Call, Operation
from pocketmq.console.web.problems import ProblemError, not_found
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.message import ReceivedMessage
from pocketmq.protocol.messages.recall_handle import RecallHandle
from pocketmq.protocol.names.names import DLQ_PREFIX, RETRY_PREFIX, TIMER_TOPIC
from pocketmq.runtime.clock import Clock


class WaitingCalls:
    """Shows which messages of a topic wait, and calls timer messages back.

    Args:
        callers: their clients.
        clock: tells what is due, and bounds the time.
    """

    def __init__(self, callers: Callers, clock: Clock) -> None:
        self._callers, self._clock = callers, clock

    def operations(self) -> list[Operation]:
        """Returns the operations of this family."""
        serve = self._callers.serve
        of_topic = f"{PREFIX}/topics/{{topic}}/waiting"
        return [
            Operation(
                "GET", of_topic, "listWaiting",
                "Messages that are not in the topic yet: delayed by a level or to a time, or half "
                "messages of transactions. Of the topic %RETRY%group: messages to be retried.",
                serve(self.waiting), WaitingMessages, query=WaitingQuery,
            ),
            Operation(
                "DELETE", f"{of_topic}/{{id}}", "recall",
                "Call a timer message back, by the id of its sender's client.",
                serve(self.recall), Recalled,
            ),
        ]  # fmt: skip

    async def waiting(self, clients: Clients, call: Call) -> WaitingMessages:
        """Looks for messages that wait."""
        topic, query = call.path["topic"], call.query
        assert isinstance(query, WaitingQuery)
        if not topic.startswith(RETRY_PREFIX):  # groups may have none yet
            await self._check_topic(clients, topic)
        now_ms = self._clock.now_ms()
        cursor = query.cursor
        if cursor is None and query.kind == "level":
            cursor = await level_cursor(clients.reader, clients.admin, now_ms)
        look = BrowseQuery(
            start="earliest",
            cursor=cursor,
            limit=query.limit,
            scan=query.scan,
            seconds=query.seconds,
        )
        own = TOPICS[query.kind]
        try:
            found = await browse(
                clients.reader, own, look, Waiting(topic, query.kind, now_ms), self._clock
            )
        except UnknownTopicError:  # the brokers take no such messages
            found = Found([], 0, "end", [], None)
        messages, recalled = await self._shown(clients, found.messages, now_ms)
        return WaitingMessages(
            messages=messages,
            scanned=found.scanned,
            stopped=found.stopped,
            queues=found.queues,
            next=found.cursor,
            recalled=recalled,
        )

    async def _check_topic(self, clients: Clients, topic: str) -> None:
        try:
            await clients.admin.topic_route(topic)
        except UnknownTopicError as e:
            raise not_found("topic", topic, f"GET {PREFIX}/topics") from e

    async def _shown(
        self, clients: Clients, records: list[ReceivedMessage], now_ms: int
    ) -> tuple[list[WaitingMessage], int]:
        halves = EndedHalves(clients.reader)
        if any(props.TRANSACTION_PREPARED in record.properties for record in records):
            await halves.read()
        turn = asyncio.Semaphore(ASKED_AT_ONCE_MAX)

        async def one(record: ReceivedMessage) -> WaitingMessage | bool:
            """The message; else whether it was called back."""
            async with turn:
                all_records = await records_of(clients.admin, record)
                due_ms = await due_ms_of(clients.admin, record)
            if any(props.TIMER_DELETE_KEY in each.properties for each in all_records):
                return True
            own = [each for each in all_records if each.broker_name == record.broker_name]
            is_newest = all(each.queue_offset <= record.queue_offset for each in own)
            is_half = props.TRANSACTION_PREPARED in record.properties
            if is_half and (halves.has(record) or not is_newest):
                return False
            if not is_half and due_ms is not None and due_ms <= now_ms:
                return False
            return self._document(record, None if is_half else due_ms, halves.knows(record))

        shown_ones = await asyncio.gather(*map(one, records))
        messages = [each for each in shown_ones if isinstance(each, WaitingMessage)]
        return messages, sum(each is True for each in shown_ones)

    def _document(
        self, record: ReceivedMessage, due_ms: int | None, is_certain: bool
    ) -> WaitingMessage:
        given = record.properties
        return WaitingMessage(
            message=shown(self._callers, record),
            due_ms=due_ms,
            level=number_in(record, props.DELAY),
            checks=number_in(record, props.TRANSACTION_CHECK_TIMES) or 0,
            producer_group=given.get(props.PRODUCER_GROUP),
            can_be_recalled=record.topic == TIMER_TOPIC
            and record.unique_key is not None
            and not given.get(props.REAL_TOPIC, "").startswith((RETRY_PREFIX, DLQ_PREFIX)),
            is_certain=is_certain,
        )

    async def recall(self, clients: Clients, call: Call) -> Recalled:
        """Calls a timer message back."""
        self._callers.check_writes()
        topic, msg_id = call.path["topic"], call.path["id"]
        await self._check_topic(clients, topic)
        try:
            records = await clients.admin.query_messages(TIMER_TOPIC, msg_id, index="unique_key")
        except UnknownTopicError:
            records = []
        waits = Waiting(topic, "timer", self._clock.now_ms())
        own = [record for record in records if await waits.fits(record)]
        slot_ms = number_in(own[-1], props.TIMER_OUT_MS) if own else None
        if slot_ms is None:
            raise not_found("waiting message", msg_id, f"GET {PREFIX}/topics/{topic}/waiting")
        if any(props.TIMER_DELETE_KEY in record.properties for record in records):
            raise ProblemError(
                409, "The message is called back", f"{msg_id} was called back already", "do nothing"
            )
        # Brokers find the slot of a handle by rounding down: hence the millisecond.
        handle = RecallHandle(topic, own[-1].broker_name, slot_ms + 1, msg_id)
        return Recalled(recalled=await clients.producer.recall(topic, handle.encode()))
