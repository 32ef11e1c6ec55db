"""Hooks: plain functions of the application that are called when messages are sent and handled.

RocketMQ's `client/hook` without its interfaces. Functions are called on the client's event loop, in
the order given, and must not block. One that raises is logged and changes nothing, except for a
forbidden check: its error refuses the send.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import Any, TypeVar

import msgspec

from pocketmq.client.errors import SendForbiddenError
from pocketmq.client.log_fields import log_fields
from pocketmq.client.results import SendResult
from pocketmq.protocol.messages.message import Message, MessageQueue, ReceivedMessage
from pocketmq.protocol.messages.trace import ConsumeReturnType, MessageType

log = logging.getLogger("pocketmq.client")

ContextT = TypeVar("ContextT")


class CommunicationMode(Enum):
    """How a send waits for its answer."""

    SYNC = "awaited"
    ASYNC = "with a callback"
    ONEWAY = "without an answer"


class CheckForbiddenContext(msgspec.Struct, eq=False):
    """A send that is about to be made (`client/hook/CheckForbiddenContext`).

    Attributes:
        group: the producer group.
        messages: one, or all of a batch.
        queue: where they are to go.
        broker_addr: that queue's broker, ``host:port``.
        mode: how the answer is waited for.
    """

    group: str
    messages: Sequence[Message]
    queue: MessageQueue
    broker_addr: str
    mode: CommunicationMode


class SendMessageContext(CheckForbiddenContext, eq=False):
    """One attempt of a send, from before to after (`client/hook/SendMessageContext`).

    A function that is called before may change the properties of a single message: they are
    encoded after it. Those of a batch are encoded already: `SendHooks.packing` changes them.

    Attributes:
        message_type: what kind of message it is.
        namespace: of the producer; empty for none.
        is_batch: whether the messages were sent as a batch, also if it is of one.
        result: of the send; None before it, after a failure, and of a send without an answer.
        error: why the attempt failed; None before it and after a success.
        notes: what one function keeps for another; its keys are theirs to choose.
    """

    message_type: MessageType = MessageType.NORMAL
    namespace: str = ""
    is_batch: bool = False
    result: SendResult | None = None
    error: BaseException | None = None
    notes: dict[Any, Any] = msgspec.field(default_factory=dict)


class PackMessagesContext(msgspec.Struct, eq=False):
    """A batch that is about to be encoded; its messages' properties may be changed.

    Attributes:
        group: the producer group.
        messages: all of them; they may need several requests.
        namespace: of the producer; empty for none.
    """

    group: str
    messages: Sequence[Message]
    namespace: str = ""


class ConsumeMessageContext(msgspec.Struct, eq=False):
    """A batch that a listener handles, from before to after (`client/hook/ConsumeMessageContext`).

    Attributes:
        consumer_group: the group.
        messages: the batch.
        queue: where it is from.
        namespace: of the consumer; empty for none.
        success: whether all of it was handled; False before.
        return_type: how the listener ended; None before.
        error: what the listener raised.
        notes: what one function keeps for another; its keys are theirs to choose.
    """

    consumer_group: str
    messages: Sequence[ReceivedMessage]
    queue: MessageQueue
    namespace: str = ""
    success: bool = False
    return_type: ConsumeReturnType | None = None
    error: BaseException | None = None
    notes: dict[Any, Any] = msgspec.field(default_factory=dict)


SendHook = Callable[[SendMessageContext], object]
PackHook = Callable[[PackMessagesContext], object]
ForbiddenCheck = Callable[[CheckForbiddenContext], object]
ConsumeHook = Callable[[ConsumeMessageContext], object]
MessageFilter = Callable[[ReceivedMessage], bool]
"""Whether the listener may have a message; one that it may not have counts as handled."""


class SendHooks(msgspec.Struct, frozen=True, kw_only=True):
    """What a producer calls at each attempt of a send::

        def sign(context: SendMessageContext) -> None:
            for message in context.messages:
                message.properties["signed-by"] = "me"

        Producer("orders", hooks=SendHooks(before=[sign]))

    Attributes:
        forbidden: called first; one that raises refuses the send with `SendForbiddenError`.
        packing: called once for each batch, before its messages are encoded.
        before: called before the message is handed to the broker.
        after: called when the attempt has ended, however.
    """

    forbidden: Sequence[ForbiddenCheck] = ()
    packing: Sequence[PackHook] = ()
    before: Sequence[SendHook] = ()
    after: Sequence[SendHook] = ()

    def __bool__(self) -> bool:
        return bool(self.forbidden or self.packing or self.before or self.after)

    def __add__(self, other: SendHooks) -> SendHooks:
        return SendHooks(
            forbidden=[*self.forbidden, *other.forbidden],
            packing=[*self.packing, *other.packing],
            before=[*self.before, *other.before],
            after=[*self.after, *other.after],
        )

    def check(self, context: CheckForbiddenContext) -> None:
        """Calls the forbidden checks.

        Raises:
            SendForbiddenError: one of them raised.
        """
        for check in self.forbidden:
            try:
                check(context)
            except Exception as e:
                raise SendForbiddenError(context.queue.topic, e) from e


class ConsumeHooks(msgspec.Struct, frozen=True, kw_only=True):
    """What a consumer calls for the messages it gets.

    Attributes:
        filters: asked for each message that was pulled; one that raises lets the message pass.
        before: called before a batch is handled.
        after: called when it was.
    """

    filters: Sequence[MessageFilter] = ()
    before: Sequence[ConsumeHook] = ()
    after: Sequence[ConsumeHook] = ()

    def __add__(self, other: ConsumeHooks) -> ConsumeHooks:
        return ConsumeHooks(
            filters=[*self.filters, *other.filters],
            before=[*self.before, *other.before],
            after=[*self.after, *other.after],
        )

    def wanted(self, messages: Iterable[ReceivedMessage]) -> list[ReceivedMessage]:
        """Returns the messages that all filters let pass."""
        return [m for m in messages if all(_passes(f, m) for f in self.filters)]


class CommonHooks(msgspec.Struct):
    """Hooks of all clients that a process makes from now on; they are called after a client's own.

    For libraries that watch an application without its help. Clients that exist keep theirs.

    Attributes:
        sending: of producers.
        handling: of push consumers, around their listeners.
        receiving: of the other consumers, whose messages count as handled when they were given.
    """

    sending: SendHooks = SendHooks()
    handling: ConsumeHooks = ConsumeHooks()
    receiving: ConsumeHooks = ConsumeHooks()


COMMON = CommonHooks()
"""The common hooks of this process: none, unless a library sets some."""


def run(hooks: Iterable[Callable[[ContextT], object]], context: ContextT) -> None:
    """Calls each function; one that raises is logged, and the next is called."""
    for hook in hooks:
        try:
            hook(context)
        except Exception:
            log.exception("the hook %r failed; what it looked at goes on", hook)


def _passes(message_filter: MessageFilter, message: ReceivedMessage) -> bool:
    try:
        return message_filter(message)
    except Exception:
        log.exception(
            "the filter %r failed at message %s, which passes",
            message_filter,
            message.msg_id,
            extra=log_fields(message=message),
        )
        return True
