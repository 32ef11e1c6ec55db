"""One pull: which broker is asked, the request, and what the answer means."""

from __future__ import annotations

import logging

from pocketmq.client.hooks import ConsumeHooks
from pocketmq.client.instance.instance import ClientInstance
from pocketmq.client.instance.namespacing import take_out
from pocketmq.client.instance.routes import MASTER_ID
from pocketmq.client.log_fields import log_fields
from pocketmq.client.results import PULL_STATUS_BY_CODE, PullResult, PullStatus
from pocketmq.protocol.bodies.clients import TAG, Subscription
from pocketmq.protocol.errors import ContentError, OperatingError, response_error
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.message import MessageQueue, ReceivedMessage
from pocketmq.protocol.messages.records import decode_records
from pocketmq.protocol.requests.pulling import (
    PULL_COMMIT_OFFSET,
    PULL_LITE,
    PULL_SUBSCRIPTION,
    PULL_SUSPEND,
    LitePullMessageRequest,
    PullMessageRequest,
    PullMessageResponse,
)
from pocketmq.transport.errors import CallTimeoutError

log = logging.getLogger("pocketmq.client")

PULL_MESSAGES_DEFAULT = 32
"""The messages that RocketMQ's brokers give at the most by their default settings."""


class Puller:
    """Pulls messages for one group.

    The subscription travels with every pull. A broker that was just restarted, or that heard of
    another subscription from a member of the same group, thus answers rightly all the same.

    Args:
        group: the consumer group.
        instance: the connections, the routes, and the namespace that is taken out of the messages'
            topics; it must be running.
        timeout_ms: how long an answer may take beyond the time it is held.
        hooks: whose filters are asked for each message.
        is_lite: ask as lite pull consumers do (361), which RocketMQ's brokers serve with threads
            of their own.
    """

    def __init__(
        self,
        group: str,
        instance: ClientInstance,
        timeout_ms: float,
        hooks: ConsumeHooks,
        *,
        is_lite: bool = False,
    ) -> None:
        self._pool, self._routes, self._group = instance.pool, instance.routes, group
        self._timeout_ms = timeout_ms
        self._namespace = instance.namespace or None
        self._hooks = hooks if hooks.filters else None
        self._request = LitePullMessageRequest if is_lite else PullMessageRequest
        self._flags = PULL_SUBSCRIPTION | PULL_LITE if is_lite else PULL_SUBSCRIPTION
        self._suggested: dict[MessageQueue, int] = {}

    async def pull(
        self,
        queue: MessageQueue,
        offset: int,
        subscription: Subscription,
        *,
        max_messages: int = PULL_MESSAGES_DEFAULT,
        max_bytes: int | None = None,
        hold_ms: int = 0,
        commit_offset: int | None = None,
    ) -> PullResult:
        """Asks a queue's broker for messages.

        Args:
            queue: where from.
            offset: the first wanted.
            subscription: which messages are wanted.
            max_messages: how many at the most; brokers have limits of their own.
            max_bytes: how much at the most; RocketMQ's brokers do not look at it.
            hold_ms: how long the broker may wait for a message when there is none.
            commit_offset: an offset to store for the group on the way, where that is safe.

        Raises:
            RouteError, NoNameServerError: the broker is not known.
            ResponseError: it refuses.
            ContentError: its answer cannot be read.
            ConnectError, ConnectionClosedError, CallTimeoutError, TooMuchRequestError.
        """
        wanted_id = self._suggested.get(queue, MASTER_ID)
        address, broker_id = await self._routes.locate(queue, wanted_id)
        flags = self._flags
        if hold_ms > 0:
            flags |= PULL_SUSPEND
        if commit_offset is not None and self._keeps_order(address, broker_id):
            flags |= PULL_COMMIT_OFFSET
        request = self._request(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=offset,
            max_msg_nums=max_messages,
            sys_flag=flags,
            commit_offset=commit_offset or 0,
            suspend_timeout_millis=hold_ms,
            subscription=subscription.sub_string,
            sub_version=subscription.sub_version,
            expression_type=subscription.expression_type or TAG,
            max_msg_bytes=max_bytes,
        )
        try:
            answer = await self._pool.call(address, request, hold_ms + self._timeout_ms)
        except CallTimeoutError:
            # The broker may be gone without a word; held pulls of other queues come again.
            self._pool.drop(address, "a pull was not answered")
            self.forget(queue)
            raise
        except OperatingError:
            self.forget(queue)
            raise
        status = PULL_STATUS_BY_CODE.get(answer.code)
        if status is None:
            self.forget(queue)  # a follower that gives nothing must not be asked for ever
            raise response_error(answer.code, answer.remark, address)
        header = answer.read(PullMessageResponse)
        self._suggest(queue, header.suggest_which_broker_id)
        messages: list[ReceivedMessage] = []
        if status is PullStatus.FOUND:
            ends = {props.MIN_OFFSET: header.min_offset, props.MAX_OFFSET: header.max_offset}
            messages = _wanted(answer.body, queue.broker_name, subscription, props.appended(ends))
            if self._namespace is not None:
                for message in messages:
                    take_out(self._namespace, message)
            if self._hooks is not None:
                messages = self._hooks.wanted(messages)
        return PullResult(
            status, messages, header.next_begin_offset, header.min_offset, header.max_offset
        )

    def _keeps_order(self, address: str, broker_id: int) -> bool:
        """Whether a broker stores an offset that comes with a pull before one that is sent later.

        RocketMQ's brokers have a thread pool for pulls and another for offsets: the last offset
        of a closing consumer could be undone by the pull before it.
        """
        connection = self._pool.peek(address)
        return broker_id == MASTER_ID and connection is not None and connection.peer_is_pocketmq

    def forget(self, queue: MessageQueue) -> None:
        """Drops the broker id that was suggested for a queue."""
        self._suggested.pop(queue, None)

    def _suggest(self, queue: MessageQueue, broker_id: int) -> None:
        if broker_id == MASTER_ID:
            self._suggested.pop(queue, None)
        else:
            self._suggested[queue] = broker_id


def _log_damaged(message: ReceivedMessage, error: ContentError) -> None:
    log.warning(
        "message %s (%s, offset %d) is handed out with its body as it is stored: %s",
        message.msg_id,
        message.queue,
        message.queue_offset,
        error,
        extra=log_fields(message=message),
    )


def _wanted(
    body: bytes, broker_name: str, subscription: Subscription, added: bytes
) -> list[ReceivedMessage]:
    """Returns the messages that match exactly: brokers compare hash codes of tags only."""
    messages = decode_records(body, broker_name, on_damaged=_log_damaged, added=added)
    if subscription.expression_type not in (None, TAG) or not subscription.tags_set:
        return list(messages)
    tags = frozenset(subscription.tags_set)
    return [m for m in messages if m.tags in tags]
