"""Metrics of producers and consumers for Prometheus, by the names of RocketMQ 5's clients::

    from pocketmq.client.metrics import ClientMetrics

    metrics = ClientMetrics()
    metrics.install()  # of all clients that are made from now on
    async with metrics.serve(9464):
        ...

They are loaded only by who imports this.
"""

from pocketmq.client.metrics.client_metrics import ClientMetrics

__all__ = ["ClientMetrics"]
