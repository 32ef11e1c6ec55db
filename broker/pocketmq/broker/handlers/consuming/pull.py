"""Pulls: 11, 361 and PocketMQ's bulk pull (`broker/processor/PullMessageProcessor`)."""

from __future__ import annotations

import msgspec

from pocketmq.broker.config.config import BrokerConfig
from pocketmq.broker.counters.store_counters import StoreCounters
from pocketmq.broker.groups.clients import ConsumerTable
from pocketmq.broker.groups.groups import GroupTable
from pocketmq.broker.groups.offsets import ConsumerOffsets, is_offset
from pocketmq.broker.reading.filters import EVERYTHING, SelectionShare
from pocketmq.broker.reading.long_polling import LongPolling
from pocketmq.broker.reading.pull_progress import PullProgress
from pocketmq.broker.reading.read_advice import ReadAdvice
from pocketmq.broker.reading.reader import Found, Reader, ReadQuery
from pocketmq.broker.refusals import no_permission, queue_illegal, topic_missing
from pocketmq.broker.store.disk.errors import StoreError
from pocketmq.broker.store.store import MessageStore
from pocketmq.broker.topics.topics import TopicTable
from pocketmq.protocol.bodies.clients import BROADCASTING, GroupConfig
from pocketmq.protocol.bodies.topics import TopicConfig
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.errors import response_error
from pocketmq.protocol.flags import PERM_READ, is_readable
from pocketmq.protocol.messages.records import RECORD_SIZE_MIN
from pocketmq.protocol.requests.pulling import (
    PULL_COMMIT_OFFSET,
    PULL_SUBSCRIPTION,
    PULL_SUSPEND,
    BulkPullRequest,
    BulkPullResponse,
    LitePullMessageRequest,
    PullMessageRequest,
    PullMessageResponse,
)
from pocketmq.protocol.wire.command import Command
from pocketmq.runtime.live import Live
from pocketmq.transport.connection import Connection, Handler, Reply
from pocketmq.transport.reading_state import Hold


class PullSettings(msgspec.Struct, frozen=True):
    """Limits of pulls.

    Attributes:
        permission: of the whole broker, bits of `pocketmq.protocol.flags`.
        count_max, size_max: messages and bytes of one pull.
        bulk_size_max: bytes of one bulk pull.
        long_polling: hold pulls as long as their clients ask for.
        short_polling_ms: how long they are held otherwise.
        sql_enabled: whether SQL92 filters are allowed.
    """

    permission: int
    count_max: int
    size_max: int
    bulk_size_max: int
    long_polling: bool
    short_polling_ms: int
    sql_enabled: bool

    @classmethod
    def of(cls, config: BrokerConfig) -> PullSettings:
        """The part of a broker's settings that pulls depend on."""
        return cls(
            permission=config.broker_permission,
            count_max=config.max_transfer_count_on_message_in_memory,
            size_max=config.max_transfer_bytes_on_message_in_memory,
            bulk_size_max=config.max_transfer_bytes_on_bulk,
            long_polling=config.long_polling_enable,
            short_polling_ms=config.short_polling_time_mills,
            sql_enabled=config.enable_property_filter,
        )


class _Pull(ReadQuery, eq=False):
    """A pull that passed the checks, with all that it needs to be tried again (a `HeldPull`)."""

    handlers: PullHandlers
    command: Command
    connection: Connection
    group: GroupConfig
    topic: TopicConfig
    end_tick: int = 0

    def wake(self) -> bool:
        found = self._read()
        if found is None:
            return True
        if found.code == ResponseCode.PULL_RETRY_IMMEDIATELY:
            # What came does not match: go on waiting behind it.
            self.offset = found.next_offset
            return False
        if found.code == ResponseCode.PULL_NOT_FOUND:
            return False
        self.connection.respond(self.command, self.handlers.answer(self, found))
        return True

    def answer_late(self) -> None:
        """Answers with what there is now; the pull had to wait because its group is far behind."""
        found = self._read()
        if found is not None:
            self.connection.respond(self.command, self.handlers.answer(self, found))

    def _read(self) -> Found | None:
        """Reads for an answer that comes later; None if it is not to come any more."""
        if self.connection.is_closing:
            return None
        try:
            return self.handlers.read(self)
        except (OSError, StoreError) as e:
            # It must not reach who woke this pull, such as the sender of a message.
            reason = f"reading failed: {e}"
            self.connection.refuse(self.command, ResponseCode.SYSTEM_ERROR, reason)
            return None

    def expire(self) -> None:
        status = "OFFSET_OVERFLOW_ONE" if self.offset else "NO_MESSAGE_IN_QUEUE"
        found = Found(ResponseCode.PULL_NOT_FOUND, status, self.offset)
        self.connection.respond(self.command, self.handlers.answer(self, found))


class PullHandlers:
    """Answers pulls, and holds those that find no message.

    Args:
        topics, groups, offsets, consumers, store: of the broker.
        counters: count the bulk pulls.
        reader: reads the queues.
        progress: counts the pulls that find nothing.
        polling: where pulls are held.
        selections: makes the selections of subscriptions.
        settings: their limits.
        advice: which member of a broker set is to be asked next; None without a set.
    """

    def __init__(
        self,
        topics: TopicTable,
        groups: GroupTable,
        offsets: ConsumerOffsets,
        consumers: ConsumerTable,
        store: MessageStore,
        counters: StoreCounters,
        reader: Reader,
        progress: PullProgress,
        polling: LongPolling,
        selections: SelectionShare,
        settings: Live[PullSettings],
        advice: ReadAdvice | None = None,
    ) -> None:
        self._advice = advice
        self._topics, self._groups, self._offsets = topics, groups, offsets
        self._consumers, self._store, self._polling = consumers, store, polling
        self._counters, self._progress, self._settings = counters, progress, settings
        self._selections = selections
        self.read, self._put_off, self._catch_up = reader.read, reader.put_off, reader.catch_up

    def table(self) -> dict[int, Handler]:
        """The handlers by request code."""
        return {
            RequestCode.PULL_MESSAGE: self.pull,
            RequestCode.LITE_PULL_MESSAGE: self.lite_pull,
            RequestCode.BULK_PULL: self.bulk_pull,
        }

    def pull(self, command: Command, connection: Connection) -> Reply:
        """11."""
        settings = self._settings.now
        request = command.read(PullMessageRequest)
        return self._pull(command, request, connection, settings.count_max, settings.size_max)

    def lite_pull(self, command: Command, connection: Connection) -> Reply:
        """361."""
        settings = self._settings.now
        request = command.read(LitePullMessageRequest)
        return self._pull(command, request, connection, settings.count_max, settings.size_max)

    def bulk_pull(self, command: Command, connection: Connection) -> Reply:
        """31002: as many messages as fit into the bytes that the client names."""
        request = command.read(BulkPullRequest)
        self._counters.bulk_read_count += 1
        limit = self._settings.now.bulk_size_max
        size_max = max(0, min(request.max_msg_bytes or limit, limit))
        # No more index entries are read than records could fit.
        count_max = size_max // RECORD_SIZE_MIN + 1
        return self._pull(
            command, request, connection, count_max, size_max, with_sizes=request.with_sizes
        )

    def _pull(
        self,
        command: Command,
        request: PullMessageRequest,
        connection: Connection,
        count_max: int,
        size_max: int,
        *,
        with_sizes: bool = False,
    ) -> Reply:
        group, topic = self._check(request, connection)
        pull = _Pull(
            group.group_name,
            topic.topic_name,
            request.queue_id,
            request.queue_offset,
            min(max(request.max_msg_nums, 1), count_max),
            size_max,
            EVERYTHING,
            with_sizes,
            self,
            command,
            connection,
            group,
            topic,
        )
        subscription = self._subscription_of(request)
        if subscription is not None:
            sql_enabled = self._settings.now.sql_enabled
            selection = self._selections.selection_now(*subscription, sql_enabled=sql_enabled)
            if selection is None:
                connection.hold_reading(Hold.WORK_SHARE)
                return self._begin_in_turn(pull, request, subscription)
            pull.selection = selection
        return self._begin(pull, request)

    async def _begin_in_turn(
        self, pull: _Pull, request: PullMessageRequest, subscription: tuple[str | None, str]
    ) -> Command | None:
        """Begins a pull when less is read, so that the loop is not held up."""
        try:
            pull.selection = await self._selections.selection_in_turn(
                *subscription, sql_enabled=self._settings.now.sql_enabled
            )
            return self._begin(pull, request)
        finally:
            pull.connection.release_reading(Hold.WORK_SHARE)

    def _begin(self, pull: _Pull, request: PullMessageRequest) -> Command | None:
        """Reads what there is now; holds the pull if that is nothing and the client will wait."""
        if request.sys_flag & PULL_COMMIT_OFFSET and is_offset(0, request.commit_offset):
            self._offsets.commit(
                request.consumer_group, request.topic, request.queue_id, request.commit_offset
            )
        if self._catch_up.is_used_up and self._put_off(pull, pull.answer_late):
            return None
        found = self.read(pull)
        if found.code == ResponseCode.PULL_NOT_FOUND and request.sys_flag & PULL_SUSPEND:
            settings = self._settings.now
            timeout_ms = (
                request.suspend_timeout_millis
                if settings.long_polling
                else settings.short_polling_ms
            )
            pull.offset = found.next_offset
            if self._polling.hold(pull, timeout_ms):
                # Ten thousands of them may wait: what was read of the request is not kept.
                pull.command.raw = None
                return None
        return self.answer(pull, found)

    # -- checks, in RocketMQ's order ----------------------------------------------------------

    def _check(
        self, request: PullMessageRequest, connection: Connection
    ) -> tuple[GroupConfig, TopicConfig]:
        permission = self._settings.now.permission
        if not permission & PERM_READ:
            raise no_permission(
                f"the broker gives no messages: its brokerPermission is {permission}"
            )
        group = self._groups.find(request.consumer_group, connection)
        if not group.consume_enable:
            raise no_permission(
                f"subscription group no permission, {group.group_name}: its consumeEnable is off"
            )
        topic = self._topics.get(request.topic)
        if topic is None:
            raise topic_missing(request.topic)
        if not is_readable(topic.perm):
            raise no_permission(f"the topic[{request.topic}] pulling message is forbidden")
        if not 0 <= request.queue_id < topic.read_queue_nums:
            raise queue_illegal(request.queue_id, topic, "read", connection.remote_address)
        if self._groups.forbidden and not self._groups.may_read(
            request.consumer_group, request.topic
        ):
            raise no_permission(
                f"the consumer group[{request.consumer_group}] is forbidden for topic"
                f"[{request.topic}]: an administrator has forbidden it (updateGroupForbidden)"
            )
        if not request.sys_flag & PULL_SUBSCRIPTION:
            self._check_membership(request, group)
        return group, topic

    def _check_membership(self, request: PullMessageRequest, group: GroupConfig) -> None:
        members = self._consumers.get(group.group_name)
        if members is None:
            raise response_error(
                ResponseCode.SUBSCRIPTION_NOT_EXIST,
                f"the consumer's group info not exist: no member of {group.group_name} has sent a "
                f"heartbeat to this broker",
            )
        if members.data.message_model == BROADCASTING and not group.consume_broadcast_enable:
            raise no_permission(
                f"the consumer group[{group.group_name}] can not consume by broadcast way"
            )
        subscription = members.subscriptions.get(request.topic)
        if subscription is None:
            raise response_error(
                ResponseCode.SUBSCRIPTION_NOT_EXIST,
                f"the consumer's subscription not exist: group {group.group_name} has not "
                f"subscribed to {request.topic}",
            )
        if subscription.sub_version < request.sub_version:
            raise response_error(
                ResponseCode.SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest"
            )

    def _subscription_of(self, request: PullMessageRequest) -> tuple[str | None, str] | None:
        """The expression's type and text; None for a group that has not said what it wants."""
        if request.sys_flag & PULL_SUBSCRIPTION:
            return request.expression_type, request.subscription or ""
        members = self._consumers.get(request.consumer_group)
        subscription = None if members is None else members.subscriptions.get(request.topic)
        if subscription is None:
            return None
        return subscription.expression_type, subscription.sub_string

    def answer(self, pull: _Pull, found: Found) -> Command:
        """The answer that says what was found, and where the queue begins and ends."""
        if found.code != ResponseCode.SUCCESS:
            self._progress.missed += 1
        queue_log = self._store.find_log(pull.topic_name, pull.queue_id)
        advice = self._advice
        header = PullMessageResponse(
            suggest_which_broker_id=0
            if advice is None
            else advice.broker_id(pull.group, queue_log, found.next_offset),
            next_begin_offset=found.next_offset,
            min_offset=0 if queue_log is None else queue_log.min_offset,
            max_offset=0 if queue_log is None else queue_log.end_offset,
            topic_sys_flag=pull.topic.topic_sys_flag,
            group_sys_flag=pull.group.group_sys_flag,
        )
        body = found.data
        if found.sizes:
            body += found.sizes
            header = BulkPullResponse(
                **msgspec.structs.asdict(header), size_count=len(found.sizes) // 4
            )
        return Command(found.code, remark=found.status, body=body, header=header)
