"""Sending failed messages back to the broker, which repeats them later or gives them up."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Sequence

from pocketmq.client.errors import BrokerDownError
from pocketmq.client.instance.instance import ClientInstance
from pocketmq.client.log_fields import log_fields
from pocketmq.client.sending.inner_producer import InnerProducer
from pocketmq.client.settings import ProducerSettings
from pocketmq.protocol.errors import OperatingError, PocketMQError, UnsupportedRequestError
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.delay_levels import FIRST_RETRY_LEVEL
from pocketmq.protocol.messages.message import Message, ReceivedMessage
from pocketmq.protocol.names.names import retry_topic
from pocketmq.protocol.requests.consuming import ConsumerSendMsgBackRequest

log = logging.getLogger("pocketmq.client")

SEND_BACK_TIMEOUT_MS = 5_000
"""How long the broker may take to take a message back, as in RocketMQ."""

INNER_PRODUCER_GROUP = "CLIENT_INNER_PRODUCER"
"""RocketMQ's name for whoever sends on behalf of a consumer."""

OF_THE_OLD_PLACE = (props.MIN_OFFSET, props.MAX_OFFSET, props.TRANSACTION_PREPARED)
"""Properties that must not be sent on: they describe the pull, or would hold the message back."""


class SendBack:
    """Sends a group's failed messages back (`DefaultMQPushConsumerImpl#sendMessageBack`).

    Request 36 first. When that fails, an ordinary message to the group's retry topic, which any
    broker takes. What cannot be sent either way stays with the caller, so that nothing is lost.

    Args:
        group: the consumer group.
        instance: the connections and routes; it must be running.
        max_reconsume_times: the repetitions after which a message goes to the dead-letter topic;
            -1 leaves that to the group's retryMaxTimes, which is 16 unless somebody changes it.
            (Java's clients say 16 then, and thereby overrule the group.)
        error_size_max: bytes of the listener's error that a message keeps; 0 for none.
    """

    def __init__(
        self,
        group: str,
        instance: ClientInstance,
        max_reconsume_times: int,
        *,
        error_size_max: int = 0,
    ) -> None:
        self._group, self._error_size_max = group, error_size_max
        self._pool, self._routes = instance.pool, instance.routes
        self._times_max = None if max_reconsume_times == -1 else max_reconsume_times
        self._namespace = instance.namespace
        self._producer = InnerProducer(INNER_PRODUCER_GROUP, instance, ProducerSettings())

    async def failed(
        self,
        messages: Sequence[ReceivedMessage],
        delay_level: int,
        error: BaseException | None = None,
    ) -> list[ReceivedMessage]:
        """Sends messages back.

        Args:
            messages: of one batch.
            delay_level: when they come again: 1 to 18; 0 lets the broker choose, a negative one
                means never.
            error: what the listener raised; None if it did not.

        Returns:
            The messages that no broker took, to be handed out again here.
        """
        taken = await asyncio.gather(
            *(self._is_taken(self.send(m, delay_level, error), m) for m in messages)
        )
        return [m for m, is_taken in zip(messages, taken, strict=True) if not is_taken]

    async def give_up(
        self,
        messages: Sequence[ReceivedMessage],
        delay_level: int,
        error: BaseException | None = None,
    ) -> list[ReceivedMessage]:
        """Sends messages to the dead letters (`ConsumeMessageOrderlyService#sendMessageBack`).

        They go to the retry topic with more repetitions than are allowed: any broker then puts
        them among the dead letters.

        Args:
            messages: of one batch, in order.
            delay_level: a negative one means that there were not too many repetitions yet.
            error: what the listener raised; None if it did not.

        Returns:
            The messages that no broker took.
        """
        text = self._text_of(error)
        return [
            m
            for m in messages
            if not await self._is_taken(self._send_anew(m, delay_level, text), m)
        ]

    def _text_of(self, error: BaseException | None) -> str | None:
        """What a message keeps of an error; None for nothing."""
        return None if error is None else error_text(error, self._error_size_max) or None

    async def _is_taken(self, sending: Awaitable[None], message: ReceivedMessage) -> bool:
        try:
            await sending
        except UnsupportedRequestError:
            return False  # an older PocketMQ, which has neither retry topics nor delays
        except PocketMQError as e:
            log.warning(
                "group %s: message %s cannot be sent back now, it is kept here: %s",
                self._group,
                message.msg_id,
                e,
                extra=log_fields(self._group, message=message),
            )
            return False
        return True

    async def send(
        self, message: ReceivedMessage, delay_level: int, error: BaseException | None = None
    ) -> None:
        """Sends one message back.

        Raises:
            UnsupportedRequestError: the broker has no retry topics.
            PocketMQError: no broker took it either way; the second attempt's error.
        """
        broker_name, text = message.broker_name, self._text_of(error)
        request = ConsumerSendMsgBackRequest(
            offset=message.physical_offset,
            group=self._group,
            delay_level=delay_level,
            origin_msg_id=message.msg_id,
            origin_topic=message.topic,
            max_reconsume_times=self._times_max,
            broker_name=broker_name,
            last_error=text,
        )
        try:
            address = self._routes.master_address(broker_name)
            if address is None:
                raise BrokerDownError(message.topic, f"the master of {broker_name}")
            await self._pool.ask(address, request, SEND_BACK_TIMEOUT_MS)
        except UnsupportedRequestError:
            raise
        except OperatingError as e:
            log.warning(
                "group %s: %s does not take message %s back, it is sent anew: %s",
                self._group,
                broker_name,
                message.msg_id,
                e,
                extra=log_fields(self._group, message=message),
            )
            await self._send_anew(message, delay_level, text)

    async def _send_anew(
        self, message: ReceivedMessage, delay_level: int, error: str | None
    ) -> None:
        times = message.reconsume_times + 1
        # The broker gives up what exceeds the maximum: that is how "never again" is said here.
        times_max = self._times_max if delay_level >= 0 else 0
        anew = self._copy(message, times, times_max, delay_level)
        if error is not None:
            anew.properties[props.LAST_ERROR] = error
        outgoing = self._producer.pack(anew)
        outgoing.header.reconsume_times = times
        outgoing.header.max_reconsume_times = times_max
        await self._producer.send(outgoing)

    def _copy(
        self, message: ReceivedMessage, times: int, times_max: int | None, delay_level: int
    ) -> Message:
        anew = Message(retry_topic(self._group), message.body, flag=message.flag)
        kept = {k: v for k, v in message.properties.items() if k not in OF_THE_OLD_PLACE}
        anew.properties = {
            **kept,
            props.RETRY_TOPIC: self._namespace.wrap(message.topic),
            props.ORIGIN_MESSAGE_ID: kept.get(props.ORIGIN_MESSAGE_ID) or message.offset_msg_id,
            props.RECONSUME_TIME: str(times),
            props.DELAY: str(
                delay_level if delay_level > 0 else FIRST_RETRY_LEVEL + message.reconsume_times
            ),
        }
        if times_max is not None:
            anew.properties[props.MAX_RECONSUME_TIMES] = str(times_max)
        return anew


def error_text(error: BaseException, size_max: int) -> str:
    """An error as a message keeps it: one line with the kind of the error, cut.

    Args:
        error: what the listener raised.
        size_max: bytes of UTF-8.
    """
    text = " ".join(f"{type(error).__name__}: {error}".split())
    text = "".join(character for character in text if character.isprintable())
    return text.encode("utf-8", "replace")[:size_max].decode("utf-8", "ignore").rstrip()
