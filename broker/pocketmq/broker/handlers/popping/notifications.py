"""Waits for something to pop, and counts who waits: 200054, 200055
(`broker/processor/NotificationProcessor`, `PollingInfoProcessor`).
"""

from __future__ import annotations

from pocketmq.broker.handlers.popping.checks import PopChecks
from pocketmq.broker.handlers.popping.pop import POLL_MS_MAX
from pocketmq.broker.popping.taking import PopQuery, Taking
from pocketmq.broker.popping.waiting import PopWaiting, key_of
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.requests.popping import (
    NotificationRequest,
    NotificationResponse,
    PollingInfoRequest,
    PollingInfoResponse,
)
from pocketmq.protocol.wire.command import Command
from pocketmq.transport.connection import Connection, Handler


class _Notification(PopQuery, eq=False, kw_only=True):
    """A request that waits until there is something to pop (a `WaitingPop`)."""

    taking: Taking
    command: Command
    connection: Connection
    end_tick: int = 0
    offset: int = 0

    @property
    def topic_name(self) -> str:
        """Under which it is held."""
        return key_of(self.group, self.topic.topic_name)

    @property
    def origin_topic(self) -> str:
        """The topic that it asks for."""
        return self.topic.topic_name

    def wake(self) -> bool:
        if not self.connection.awaits(self.command):
            return True
        if not self.taking.has_messages(self):
            return False
        self.connection.respond(self.command, _answer(has_messages=True))
        return True

    def expire(self) -> None:
        if self.connection.awaits(self.command):
            found = self.taking.has_messages(self)
            self.connection.respond(self.command, _answer(has_messages=found))


class NotificationHandlers:
    """Tells clients when there is something to pop.

    Args:
        checks: of pops.
        taking: knows what there is.
        waiting: holds the requests.
    """

    def __init__(self, checks: PopChecks, taking: Taking, waiting: PopWaiting) -> None:
        self._checks, self._taking, self._waiting = checks, taking, waiting

    def table(self) -> dict[int, Handler]:
        """The handlers by request code."""
        return {
            RequestCode.NOTIFICATION: self.notification,
            RequestCode.POLLING_INFO: self.polling_info,
        }

    def notification(self, command: Command, connection: Connection) -> Command | None:
        """200054."""
        request = command.read(NotificationRequest)
        topic = self._checks.check(
            connection,
            request.consumer_group,
            request.topic,
            request.queue_id,
            born_ms=request.born_time,
            poll_ms=request.poll_time,
        )
        query = _Notification(
            group=request.consumer_group,
            topic=topic,
            queue_id=request.queue_id,
            count_max=1,
            is_ordered=bool(request.order),
            attempt_id=request.attempt_id or "",
            taking=self._taking,
            command=command,
            connection=connection,
        )
        if self._taking.has_messages(query):
            return _answer(has_messages=True)
        if request.poll_time <= 0:
            return _answer(has_messages=False)
        if self._waiting.hold(query, min(request.poll_time, POLL_MS_MAX)):
            return None
        return _answer(has_messages=False, is_full=True)

    def polling_info(self, command: Command, connection: Connection) -> Command:
        """200055."""
        request = command.read(PollingInfoRequest)
        self._checks.check(connection, request.consumer_group, request.topic, request.queue_id)
        count = self._waiting.count_of(request.consumer_group, request.topic, request.queue_id)
        return Command(ResponseCode.SUCCESS, header=PollingInfoResponse(polling_num=count))


def _answer(*, has_messages: bool, is_full: bool = False) -> Command:
    header = NotificationResponse(has_msg=has_messages, polling_full=is_full)
    return Command(ResponseCode.SUCCESS, header=header)
