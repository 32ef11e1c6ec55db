"""OpenTelemetry for producers and consumers (`pip install pocketmq[opentelemetry]`)::

    from pocketmq.client.opentelemetry import PocketMQInstrumentor

    PocketMQInstrumentor().instrument()

The command ``opentelemetry-instrument`` does so without a change of the application.
"""

from pocketmq.client.opentelemetry.instrumentor import PocketMQInstrumentor
from pocketmq.client.opentelemetry.propagation import context_of

__all__ = ["PocketMQInstrumentor", "context_of"]
