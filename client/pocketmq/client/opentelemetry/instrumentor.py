"""What OpenTelemetry's tools call to have producers and consumers traced."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from opentelemetry import trace
from opentelemetry.instrumentation.instrumentor import (  # type: ignore[attr-defined]
    BaseInstrumentor,  # its module opts out of types
)

from pocketmq.client.hooks import COMMON, CommonHooks
from pocketmq.client.opentelemetry.consuming import ProcessSpans, ReceiveSpans
from pocketmq.client.opentelemetry.sending import SendingSpans
from pocketmq.runtime import VERSION


class PocketMQInstrumentor(BaseInstrumentor):  # type: ignore[misc]  # the base is not typed
    """Has the producers and consumers that are made from now on traced, blocking ones too.

    `instrument` takes ``tracer_provider``; without it the global one is used, and contexts travel
    by the global propagator. `uninstrument` leaves the clients traced that exist.
    """

    def instrumentation_dependencies(self) -> Collection[str]:
        """Returns what must be installed: only what this module is part of."""
        return ("pocketmq",)

    def _instrument(self, **kwargs: Any) -> None:
        tracer = trace.get_tracer(
            "pocketmq.client.opentelemetry", VERSION, kwargs.get("tracer_provider")
        )
        COMMON.sending = SendingSpans(tracer).hooks
        COMMON.handling = ProcessSpans(tracer).hooks
        COMMON.receiving = ReceiveSpans(tracer).hooks

    def _uninstrument(self, **kwargs: Any) -> None:
        none = CommonHooks()
        COMMON.sending, COMMON.handling = none.sending, none.handling
        COMMON.receiving = none.receiving
