"""What Airflow's `MessageQueueTrigger` finds under the schemes ``pocketmq`` and ``rocketmq``."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from airflow.providers.common.messaging.providers.base_provider import BaseMessageQueueProvider
from airflow.triggers.base import BaseEventTrigger

from pocketmq.airflow.target import DEFAULT_PORT
from pocketmq.airflow.triggers import MessageTrigger
from pocketmq.protocol.errors import ConfigError

SCHEMES = ("pocketmq", "rocketmq")


class PocketMQMessageQueueProvider(BaseMessageQueueProvider):
    """Makes `MessageTrigger` of a scheme, or of ``pocketmq://host[:port][,host[:port]…]/topic``."""

    scheme = SCHEMES[0]

    def scheme_matches(self, scheme: str) -> bool:
        """Whether a scheme is one of ours."""
        return scheme in SCHEMES

    def queue_matches(self, queue: str) -> bool:
        """Whether a queue's URI has one of our schemes."""
        return queue.partition("://")[0] in SCHEMES

    def trigger_class(self) -> type[BaseEventTrigger]:
        """Returns the trigger."""
        return MessageTrigger

    def trigger_kwargs(self, queue: str, **kwargs: Any) -> dict[str, Any]:
        """Returns the arguments that a queue's URI holds; without a host the connection counts.

        Raises:
            ConfigError: neither the URI nor the arguments name a topic.
        """
        url = urlsplit(queue)
        hosts = [h if ":" in h else f"{h}:{DEFAULT_PORT}" for h in url.netloc.split(",") if h]
        found = {"topic": url.path.strip("/"), "namesrv": ";".join(hosts)}
        if not found["topic"] and "topic" not in kwargs:
            raise ConfigError(
                f"the queue {queue} names no topic: it is "
                f"pocketmq://host[:port][,host[:port]...]/topic"
            )
        return {name: value for name, value in found.items() if value and name not in kwargs}
