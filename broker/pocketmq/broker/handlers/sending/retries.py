"""Messages that consumers send back: 36 (`broker/processor/AbstractSendMessageProcessor`)."""

from __future__ import annotations

import random
import struct

from pocketmq.broker.appending.stored_message import StoredMessage, read_stored, with_properties
from pocketmq.broker.counters.traffic import TrafficTable
from pocketmq.broker.delay.schedule import Schedule
from pocketmq.broker.groups.groups import GroupTable
from pocketmq.broker.handlers.sending.send_checks import SendSettings
from pocketmq.broker.refusals import no_permission
from pocketmq.broker.store.disk.errors import StoreError
from pocketmq.broker.store.log.queue_log import AS_CONFIGURED, Waiter
from pocketmq.broker.store.log.tags import encoded_tags_code
from pocketmq.broker.store.store import MessageStore
from pocketmq.broker.topics.topics import DLQ_QUEUE_NUMS, TopicTable
from pocketmq.protocol import flags
from pocketmq.protocol.bodies.clients import GroupConfig
from pocketmq.protocol.codes import RequestCode, ResponseCode, Version
from pocketmq.protocol.errors import OperatingError, ResponseError, response_error
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.ids import offset_msg_id
from pocketmq.protocol.names import names
from pocketmq.protocol.requests.consuming import ConsumerSendMsgBackRequest
from pocketmq.protocol.wire.command import Command
from pocketmq.runtime.live import Live
from pocketmq.transport.connection import Connection, Handler

FIRST_DELAY_LEVEL = 3
"""Of the first repetition; each further one waits a level longer."""

UNIT_SUBSCRIPTION = 2
"""Topic flag of a retry topic whose consumers work in units."""


class RetryHandlers:
    """Stores messages for another attempt, or among the dead letters.

    Args:
        topics, groups, store, schedule: of the broker.
        store_host: the broker's encoded address.
        settings: of sends.
        chance: picks the retry topic's queue.
        sent_back: counts, by group and the topic that the messages were first sent to.
    """

    def __init__(
        self,
        topics: TopicTable,
        groups: GroupTable,
        store: MessageStore,
        schedule: Schedule,
        store_host: bytes,
        settings: Live[SendSettings],
        chance: random.Random,
        sent_back: TrafficTable[tuple[str, str]],
    ) -> None:
        self._topics, self._groups = topics, groups
        self._store, self._schedule = store, schedule
        self._store_host, self._settings, self._chance = store_host, settings, chance
        self._sent_back = sent_back

    def table(self) -> dict[int, Handler]:
        """The handlers by request code."""
        return {RequestCode.CONSUMER_SEND_MSG_BACK: self.send_back}

    def send_back(self, command: Command, connection: Connection) -> Command | None:
        """36: answered when the message is stored anew, as durably as the broker's sends are."""
        request = command.read(ConsumerSendMsgBackRequest)
        group = self._groups.find(request.group)
        permission = self._settings.now.permission
        if not permission & flags.PERM_WRITE:
            raise no_permission(
                f"the broker takes no messages: its brokerPermission is {permission}"
            )
        if group.retry_queue_nums <= 0:
            return Command(ResponseCode.SUCCESS)  # the group wants no retries: nothing is done
        retry_topic = names.retry_topic(group.group_name)
        topic = self._topics.create_for_group(
            retry_topic, group.retry_queue_nums, UNIT_SUBSCRIPTION if request.unit_mode else 0
        )
        if not flags.is_writable(topic.perm):
            raise no_permission(f"the topic[{retry_topic}] sending message is forbidden")
        data = self._store.read_physical(request.offset) if request.offset >= 0 else b""
        if not data:
            raise _impossible(f"look message by offset failed, {request.offset}")
        message = read_stored(data)
        level = _delay_level(command, request, group, message)
        if level is None:
            dlq_topic = names.dlq_topic(group.group_name)
            self._topics.create_for_group(dlq_topic, DLQ_QUEUE_NUMS)
            self._append(command, connection, self._again(message, 0), dlq_topic, 0, 0)
        else:
            queue_nums = min(group.retry_queue_nums, topic.write_queue_nums)
            queue_id = self._chance.randrange(max(queue_nums, 1))
            again = self._again(message, level)
            self._append(command, connection, again, retry_topic, queue_id, level)
        self._count(group.group_name, message)
        return None

    def _count(self, group: str, message: StoredMessage) -> None:
        text = message.properties.decode("utf-8", "surrogateescape")
        topic = props.value_of(text, props.RETRY_TOPIC) or message.topic
        sent_back = self._sent_back[group, topic]
        sent_back.requests += 1
        sent_back.messages += 1

    def _again(self, message: StoredMessage, level: int) -> StoredMessage:
        """The message as it is handed out once more."""
        text = message.properties.decode("utf-8", "surrogateescape")
        origin_id = props.value_of(text, props.ORIGIN_MESSAGE_ID) or offset_msg_id(
            message.store_host, message.physical_offset
        )
        changes = {
            props.RETRY_TOPIC: props.value_of(text, props.RETRY_TOPIC) or message.topic,
            props.WAIT: "false",
            props.DELAY: str(level),
            props.ORIGIN_MESSAGE_ID: origin_id,
        }
        return message._replace(
            store_host=self._store_host,
            reconsume_times=message.reconsume_times + 1,
            properties=_encoded(with_properties(text, changes)),
        )

    def _append(
        self,
        command: Command,
        connection: Connection,
        message: StoredMessage,
        topic: str,
        queue_id: int,
        level: int,
    ) -> None:
        if self._store.refusal is not None:
            raise _impossible(self._store.refusal)
        store_ms = deliver_ms = 0
        try:
            queue_log = self._store.queue_log(topic, queue_id)
            if level > 0:
                text = message.properties.decode("utf-8", "surrogateescape")
                queue_log, store_ms, deliver_ms, text = self._schedule.divert(
                    level, queue_log, text
                )
                message = message._replace(properties=_encoded(text))
            store_ms = store_ms or self._store.store_time(queue_log)
            record = message.record_for(queue_log, store_ms, deliver_ms)
        except (StoreError, struct.error) as e:
            raise _impossible(str(e)) from e

        def stored(error: OperatingError | None) -> None:
            if deliver_ms:
                self._schedule.wake(queue_log)
            if error is None:
                connection.respond(command, Command(ResponseCode.SUCCESS))
            else:
                connection.refuse(command, ResponseCode.SYSTEM_ERROR, str(error))

        # WAIT=false is for the copies: the consumer that gets this answer forgets the message.
        code = deliver_ms or encoded_tags_code(message.properties)
        queue_log.append(record, code, Waiter(stored, AS_CONFIGURED))
        self._store.schedule_commit(queue_log)


def _delay_level(
    command: Command,
    request: ConsumerSendMsgBackRequest,
    group: GroupConfig,
    message: StoredMessage,
) -> int | None:
    """After which delay a message is handed out again; None if it was often enough."""
    times_max = group.retry_max_times
    if command.version >= Version.V3_4_9 and request.max_reconsume_times is not None:
        times_max = request.max_reconsume_times
    if message.reconsume_times >= times_max or request.delay_level < 0:
        return None
    return request.delay_level or FIRST_DELAY_LEVEL + message.reconsume_times


def _encoded(text: str) -> bytes:
    properties = text.encode("utf-8", "surrogateescape")
    if len(properties) > props.PROPERTIES_SIZE_MAX:
        raise _impossible(
            f"with what a retry adds the message's properties have {len(properties)} bytes, the "
            f"limit is {props.PROPERTIES_SIZE_MAX}"
        )
    return properties


def _impossible(remark: str) -> ResponseError:
    return response_error(ResponseCode.SYSTEM_ERROR, remark)
