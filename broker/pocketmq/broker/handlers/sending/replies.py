"""Replies to requests: 324, 325, pushed as 326 (`broker/processor/ReplyMessageProcessor`).

A request is an ordinary message that says who sent it. Its reply names that client, and this broker
hands it over if the client has a producer here.
"""

from __future__ import annotations

import logging

import msgspec

from pocketmq.broker.appending.appender import Appender
from pocketmq.broker.appending.size_limits import check_body_size, check_properties_size
from pocketmq.broker.appending.stored_message import encode_text, with_properties
from pocketmq.broker.config.config import BrokerConfig
from pocketmq.broker.groups.clients import ProducerTable
from pocketmq.broker.handlers.sending.send_targets import SendTargets
from pocketmq.broker.store.log.queue_log import WRITTEN
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.errors import OperatingError
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.hosts import encode_host, split_address
from pocketmq.protocol.messages.ids import offset_msg_id
from pocketmq.protocol.requests.sending import (
    PushReplyRequest,
    SendMessageRequest,
    SendMessageResponse,
    SendReplyLongRequest,
    SendReplyRequest,
)
from pocketmq.protocol.wire.command import Command
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.live import Live
from pocketmq.transport.connection import Connection, Handler

log = logging.getLogger("pocketmq.broker")

PUSH_TIMEOUT_MS = 10_000
"""How long the requester may take to acknowledge the reply (`Broker2Client#callClient`)."""

NOT_STORED_ID = "0"
"""In the answer when the reply was only handed over: clients cannot do without an id."""


class ReplySettings(msgspec.Struct, frozen=True):
    """What replies need to know of their broker.

    Attributes:
        region, trace_on: go into the replies and the answers.
        body_size_max: bytes of a reply that is kept.
        are_stored: whether replies are kept, too (storeReplyMessageEnable).
    """

    region: str
    trace_on: bool
    body_size_max: int
    are_stored: bool

    @classmethod
    def of(cls, config: BrokerConfig) -> ReplySettings:
        """The part of a broker's settings that replies depend on."""
        return cls(
            region=config.region_id,
            trace_on=config.trace_on,
            body_size_max=config.max_message_size,
            are_stored=config.store_reply_message_enable,
        )


class ReplyHandlers:
    """Hands replies over, and keeps them.

    The answer says whether the requester has the reply; what becomes of the stored one does not
    change it.

    Args:
        targets: the logs that replies are stored in.
        producers: where requesters are.
        appender, clock: of the broker.
        address: the broker's, ``host:port``.
        settings: of replies.
    """

    def __init__(
        self,
        targets: SendTargets,
        producers: ProducerTable,
        appender: Appender,
        clock: Clock,
        address: str,
        settings: Live[ReplySettings],
    ) -> None:
        self._targets, self._producers, self._appender = targets, producers, appender
        self._clock, self._address, self._settings = clock, address, settings
        self._store_host = encode_host(*split_address(address))

    def table(self) -> dict[int, Handler]:
        """The handlers by request code."""
        return {
            RequestCode.SEND_REPLY_MESSAGE: self.reply_long,
            RequestCode.SEND_REPLY_MESSAGE_V2: self.reply,
        }

    async def reply(self, command: Command, connection: Connection) -> Command | None:
        """325."""
        return await self._reply(command, command.read(SendReplyRequest), connection)

    async def reply_long(self, command: Command, connection: Connection) -> Command | None:
        """324: the same with long names."""
        return await self._reply(command, command.read(SendReplyLongRequest), connection)

    async def _reply(
        self, command: Command, request: SendMessageRequest, connection: Connection
    ) -> Command | None:
        request.queue_id = self._targets.log_for(request, connection).queue_id
        # RocketMQ says these in every reply, as in every message (`buildMsgContext`).
        settings = self._settings.now
        spoken = {
            props.MSG_REGION: settings.region,
            props.TRACE_ON: "true" if settings.trace_on else "false",
        }
        request.properties = with_properties(request.properties or "", spoken)
        refusal = await self._push(command, request, connection)
        if refusal is not None:
            log.warning("%s", refusal)
        if self._settings.now.are_stored:
            try:
                self._keep(command, request, connection, refusal)
            except OperatingError as e:
                log.warning("a reply to topic %s is not stored: %s", request.topic, e)
            else:
                return None
        return self._answer(refusal, NOT_STORED_ID, request.queue_id, 0)

    # -- handing over -------------------------------------------------------------------------

    async def _push(
        self, command: Command, request: SendMessageRequest, connection: Connection
    ) -> str | None:
        """Hands the reply to the requester; returns why that was not possible."""
        given = request.properties or ""
        client_id = props.value_of(given, props.REPLY_TO_CLIENT)
        if client_id is None:
            return f"reply message properties[{props.REPLY_TO_CLIENT}] is null"
        requester = self._producers.connection_of(client_id)
        if requester is None:
            return f"push reply message fail, channel of <{client_id}> not found."
        now_ms = self._clock.now_ms()
        push = PushReplyRequest(
            producer_group=request.producer_group,
            topic=request.topic,
            default_topic=request.default_topic,
            default_topic_queue_nums=request.default_topic_queue_nums,
            queue_id=request.queue_id,
            sys_flag=request.sys_flag,
            born_timestamp=request.born_timestamp,
            flag=request.flag,
            properties=with_properties(given, {props.PUSH_REPLY_TIME: str(now_ms)}),
            reconsume_times=request.reconsume_times,
            unit_mode=bool(request.unit_mode),
            born_host=connection.remote_address,
            store_host=self._address,
            store_timestamp=now_ms,
        )
        try:
            answer = await requester.call(
                Command(push.code, header=push, body=command.body), PUSH_TIMEOUT_MS
            )
        except OperatingError as e:
            log.info("client %s does not take a reply: %s", client_id, e)
            return f"push reply message to {client_id}fail."
        if answer.code != ResponseCode.SUCCESS:
            log.info("client %s refuses a reply: %s", client_id, answer.remark)
            return f"push reply message to {client_id}fail."
        return None

    # -- keeping ------------------------------------------------------------------------------

    def _keep(
        self,
        command: Command,
        request: SendMessageRequest,
        connection: Connection,
        refusal: str | None,
    ) -> None:
        """Stores the reply; the answer is given when that is done."""
        queue_log = self._targets.log_for(request, connection)
        text = request.properties or ""
        properties = encode_text(text)
        check_properties_size(properties)
        check_body_size(command.body, self._settings.now.body_size_max)
        physical_offset, offset = queue_log.next_physical_offset, queue_log.next_offset

        def on_stored(error: OperatingError | None) -> None:
            msg_id = offset_msg_id(self._store_host, physical_offset)
            if error is not None:
                log.warning("a reply to topic %s is not stored: %s", request.topic, error)
                msg_id = NOT_STORED_ID
            connection.respond(command, self._answer(refusal, msg_id, queue_log.queue_id, offset))

        self._appender.append_sent(
            queue_log, physical_offset, request, command.body, connection.remote_host,
            request.sys_flag, properties, props.tags_code(props.value_of(text, props.TAGS)),
            self._store_host, on_stored, WRITTEN,
        )  # fmt: skip

    def _answer(self, refusal: str | None, msg_id: str, queue_id: int, offset: int) -> Command:
        return Command(
            ResponseCode.SUCCESS if refusal is None else ResponseCode.SYSTEM_ERROR,
            remark=refusal,
            header=SendMessageResponse(
                msg_id=msg_id,
                queue_id=queue_id,
                queue_offset=offset,
                region=self._settings.now.region,
                trace_on=self._settings.now.trace_on,
            ),
        )
