"""Sending for producers that have hooks; the others use `Sender` and pay nothing."""

from __future__ import annotations

import asyncio

from pocketmq.client.hooks import CheckForbiddenContext, SendHooks, SendMessageContext, run
from pocketmq.client.instance.instance import ClientInstance
from pocketmq.client.results import SendResult
from pocketmq.client.sending.outgoing import Outgoing
from pocketmq.client.sending.sending import Sender
from pocketmq.client.settings import ProducerSettings
from pocketmq.protocol.errors import PocketMQError
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.message import Message, MessageQueue
from pocketmq.protocol.messages.trace import MessageType


class HookedSender(Sender):
    """Calls hooks at each attempt to send, as `DefaultMQProducerImpl#sendKernelImpl` does.

    Args:
        instance, settings: as of `Sender`.
        hooks: what to call.
        group: the producer group.
    """

    def __init__(
        self, instance: ClientInstance, settings: ProducerSettings, hooks: SendHooks, group: str
    ) -> None:
        super().__init__(instance, settings)
        self._hooks, self._group, self._namespace = hooks, group, instance.namespace.name

    async def _attempt(
        self, outgoing: Outgoing, queue: MessageQueue, deadline: float
    ) -> SendResult:
        context = await self._before(outgoing, queue, deadline)
        try:
            self._encode(outgoing)
            context.result = await super()._attempt(outgoing, queue, deadline)
        except (PocketMQError, asyncio.CancelledError) as e:
            context.error = e
            raise
        finally:
            run(self._hooks.after, context)
        return context.result

    async def _attempt_oneway(
        self, outgoing: Outgoing, queue: MessageQueue, deadline: float
    ) -> None:
        context = await self._before(outgoing, queue, deadline)
        try:
            self._encode(outgoing)
            await super()._attempt_oneway(outgoing, queue, deadline)
        except (PocketMQError, asyncio.CancelledError) as e:
            context.error = e
            raise
        finally:
            run(self._hooks.after, context)

    async def _before(
        self, outgoing: Outgoing, queue: MessageQueue, deadline: float
    ) -> SendMessageContext:
        hooks, messages = self._hooks, outgoing.messages
        address = await self.address(queue, deadline)
        if hooks.forbidden:
            hooks.check(CheckForbiddenContext(self._group, messages, queue, address, outgoing.mode))
        context = SendMessageContext(
            self._group,
            messages,
            queue,
            address,
            outgoing.mode,
            message_type=message_type(messages[0]),
            namespace=self._namespace,
            is_batch=outgoing.is_batch,
        )
        run(hooks.before, context)
        return context

    def _encode(self, outgoing: Outgoing) -> None:
        """Encodes what functions called before have changed."""
        if self._hooks.before:
            outgoing.encode_properties_anew()


def message_type(message: Message) -> MessageType:
    """Returns a message's type, by its properties; a timer counts as a delay."""
    properties = message.properties
    if props.DELAY in properties or any(name in properties for name in props.TIMER_PROPERTIES):
        return MessageType.DELAY
    if properties.get(props.TRANSACTION_PREPARED) == "true":
        return MessageType.TRANSACTION_HALF
    return MessageType.NORMAL
