"""The producer of the client itself: for failed messages that go back, and for traces."""

from __future__ import annotations

from pocketmq.client.instance.instance import ClientInstance
from pocketmq.client.results import SendResult
from pocketmq.client.sending.outgoing import Outgoing, Packer
from pocketmq.client.sending.sending import Sender
from pocketmq.client.settings import ProducerSettings
from pocketmq.protocol.messages.message import Message


class InnerProducer:
    """Sends messages of the client itself; it needs no start and no close.

    Args:
        group: the producer group.
        instance: the connections and routes; it must be running.
        settings: how to send.
    """

    def __init__(self, group: str, instance: ClientInstance, settings: ProducerSettings) -> None:
        self._settings = settings
        self._packer = Packer(
            group, instance.clock, instance.unique_keys, settings, instance.settings
        )
        self._sender = Sender(instance, settings)

    def pack(self, message: Message) -> Outgoing:
        """Makes the request for a message; see `Packer.pack`."""
        return self._packer.pack(message)

    async def send(self, outgoing: Outgoing) -> SendResult:
        """Sends a request, with retries; see `Sender.send`."""
        settings = self._settings
        return await self._sender.send(
            outgoing, settings.send_timeout_ms, settings.retry_times_when_send_failed
        )
