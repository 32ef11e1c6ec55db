"""Spans of consumers, as hooks."""

from __future__ import annotations

from contextvars import Token

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.instrumentation.utils import is_instrumentation_enabled
from opentelemetry.trace import Span, SpanKind, Tracer

from pocketmq.client.hooks import ConsumeHooks, ConsumeMessageContext
from pocketmq.client.opentelemetry import attributes
from pocketmq.client.opentelemetry.propagation import context_of, link_to
from pocketmq.protocol.messages.trace import ConsumeReturnType


class ProcessSpans:
    """A span `process` around each call of a listener, which is current within the listener.

    The span of one message is a child of the span that sent it, also when the message comes again
    or is a dead letter. The span of several messages begins a trace, with a link to each of them.

    Args:
        tracer: makes the spans.
    """

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self.hooks = ConsumeHooks(before=[self._before], after=[self._after])

    def _before(self, context: ConsumeMessageContext) -> None:
        messages = context.messages
        is_one = len(messages) == 1
        # What was current when the consumer started is no parent of what it handles.
        parent = context_of(messages[0]) if is_one else Context()
        span = self._tracer.start_span(
            f"process {messages[0].topic}",
            context=parent,
            kind=SpanKind.CONSUMER,
            attributes=_attributes("process", context),
            links=() if is_one else _links(context),
        )
        token = contexts.attach(trace.set_span_in_context(span, parent))
        context.notes[self] = (span, token)

    def _after(self, context: ConsumeMessageContext) -> None:
        noted: tuple[Span, Token[Context]] | None = context.notes.pop(self, None)
        if noted is None:
            return
        span, token = noted
        contexts.detach(token)
        error, return_type = context.error, context.return_type
        if error is not None:
            span.record_exception(error)
            attributes.set_failed(span, type(error).__qualname__, str(error))
        elif return_type not in (None, ConsumeReturnType.SUCCESS):
            attributes.set_failed(span, return_type.name.lower())
        span.end()


class ReceiveSpans:
    """A span `receive` for the messages that a consumer gave to the application, with links.

    The span says that the messages were given: hooks do not see how long the consumer waited.

    Args:
        tracer: makes the spans.
    """

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self.hooks = ConsumeHooks(before=[self._before])

    def _before(self, context: ConsumeMessageContext) -> None:
        if not is_instrumentation_enabled():
            return
        self._tracer.start_span(
            f"receive {context.messages[0].topic}",
            kind=SpanKind.CLIENT,
            attributes=_attributes("receive", context),
            links=_links(context),
        ).end()


def _attributes(operation: str, context: ConsumeMessageContext) -> attributes.Attributes:
    messages = context.messages
    return attributes.of_operation(
        operation, messages[0].topic, context.namespace
    ) | attributes.of_consumed(messages, context.queue, context.consumer_group)


def _links(context: ConsumeMessageContext) -> list[trace.Link]:
    return [link for link in map(link_to, context.messages) if link is not None]
