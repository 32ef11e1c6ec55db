"""Trace contexts within messages: W3C's `traceparent` and its like as user properties.

OpenTelemetry's Java agent writes the same names for RocketMQ's client, so traces go on across
languages. Brokers keep user properties over retries, dead letters and redrives.
"""

from __future__ import annotations

from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span

from pocketmq.protocol.messages.message import Message


def context_of(message: Message) -> Context:
    """Returns the trace context that a message carries, for spans of an application's own::

        with tracer.start_as_current_span("price", context=context_of(message)):
            ...

    Args:
        message: as a consumer gave it; one without a context gives an empty one.
    """
    return propagate.extract(message.properties, context=Context())


def put_context(message: Message, span: Span) -> None:
    """Writes a span's context, and the baggage of the caller, into a message's properties.

    What an earlier send or an earlier hop left there goes.
    """
    properties = message.properties
    for name in propagate.get_global_textmap().fields:
        properties.pop(name, None)
    propagate.inject(properties, context=trace.set_span_in_context(span))


def link_to(message: Message) -> Link | None:
    """Returns a link to the span whose context a message carries; None for none."""
    origin = trace.get_current_span(context_of(message)).get_span_context()
    return Link(origin) if origin.is_valid else None
