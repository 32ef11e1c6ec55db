"""Spans of producers, as hooks."""

from __future__ import annotations

from opentelemetry.instrumentation.utils import is_instrumentation_enabled
from opentelemetry.trace import Span, SpanKind, Tracer

from pocketmq.client.hooks import PackMessagesContext, SendHooks, SendMessageContext
from pocketmq.client.opentelemetry import attributes
from pocketmq.client.opentelemetry.propagation import link_to, put_context
from pocketmq.protocol.messages.trace import MessageType


class SendingSpans:
    """A span `send` for each attempt, whose context the message carries.

    A batch has a span `create` for each message, whose contexts the messages carry, and a span
    `send` for each attempt of a request, with links to these: otherwise the consumers of a batch
    could not tell its messages apart.

    Args:
        tracer: makes the spans.
    """

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self.hooks = SendHooks(packing=[self._packing], before=[self._before], after=[self._after])

    def _packing(self, context: PackMessagesContext) -> None:
        if not is_instrumentation_enabled():
            return
        for message in context.messages:
            span = self._tracer.start_span(
                f"create {message.topic}",
                kind=SpanKind.PRODUCER,
                attributes=attributes.of_operation("create", message.topic, context.namespace)
                | attributes.of_message(message)
                | attributes.of_type(message, MessageType.NORMAL),
            )
            put_context(message, span)
            span.end()

    def _before(self, context: SendMessageContext) -> None:
        if not is_instrumentation_enabled():
            return
        messages = context.messages
        first = messages[0]
        known = attributes.of_operation("send", first.topic, context.namespace)
        known |= attributes.of_broker(context.broker_addr)
        known[attributes.QUEUE_ID] = str(context.queue.queue_id)
        name = f"send {first.topic}"
        if context.is_batch:
            # The messages carry the contexts of their `create` spans: this span is a mere call.
            known[attributes.MESSAGE_COUNT] = len(messages)
            links = [link for link in map(link_to, messages) if link is not None]
            span = self._tracer.start_span(
                name, kind=SpanKind.CLIENT, attributes=known, links=links
            )
        else:
            known |= attributes.of_message(first)
            known |= attributes.of_type(first, context.message_type)
            span = self._tracer.start_span(name, kind=SpanKind.PRODUCER, attributes=known)
            put_context(first, span)
        context.notes[self] = span

    def _after(self, context: SendMessageContext) -> None:
        span: Span | None = context.notes.pop(self, None)
        if span is None:
            return
        result, error = context.result, context.error
        if result is not None:
            span.set_attribute(attributes.QUEUE_ID, str(result.queue.queue_id))
        if error is not None:
            attributes.set_failed(span, type(error).__qualname__, str(error))
        span.end()
