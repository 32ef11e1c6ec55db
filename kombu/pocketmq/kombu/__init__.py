"""A transport of kombu, so that Celery runs on RocketMQ: ``transport="pocketmq.kombu:Transport"``.

Needs ``pip install 'pocketmq[kombu]'``. Once this package is imported, URLs may begin with
``pocketmq://``.
"""

from kombu.transport import TRANSPORT_ALIASES

from pocketmq.kombu.transport import Transport

TRANSPORT_ALIASES.setdefault("pocketmq", "pocketmq.kombu:Transport")

__all__ = ["Transport"]
