"""The transport that kombu and Celery load."""

from __future__ import annotations

import threading
from typing import Any

from kombu.transport import virtual

from pocketmq.kombu.blocking_link import BlockingLink
from pocketmq.kombu.channel import Channel
from pocketmq.kombu.options import DEFAULT_PORT, read_address, read_options
from pocketmq.protocol.errors import OperatingError, PocketMQError
from pocketmq.runtime import VERSION
from pocketmq.runtime.clock import SystemClock


class Transport(virtual.Transport):
    """Kombu's connection to a cluster: ``pocketmq://host:9876``.

    Queues are topics, consumers pop. See docs/celery.md.

    Args:
        client: kombu's `Connection`, with the URL and the `Options`.

    Raises:
        ConfigError: an option or the URL does not fit.
    """

    Channel = Channel
    can_parse_url = True
    default_port = DEFAULT_PORT
    driver_type = "rocketmq"
    driver_name = "pocketmq"
    connection_errors = (*virtual.Transport.connection_errors, OperatingError)
    channel_errors = (*virtual.Transport.channel_errors, PocketMQError)
    implements = virtual.Transport.implements.extend(
        asynchronous=False,
        exchange_type=frozenset(["direct", "topic", "fanout"]),
        heartbeats=False,
    )

    def __init__(self, client: Any, **kwargs: Any) -> None:
        super().__init__(client, **kwargs)
        self.options = read_options(client.transport_options or {})
        self.arrived = threading.Condition()
        self._changes = 0
        self._clock = SystemClock()
        self._link: BlockingLink | None = None

    @property
    def link(self) -> BlockingLink:
        """The client of the connection."""
        if self._link is None:
            self._link = self._connected_link()
        return self._link

    def _connected_link(self) -> BlockingLink:
        client = self.client
        address = read_address(client.hostname or "localhost", client.port)
        settings = {"namespace": "", **address.settings, **self.options.client}
        if client.connect_timeout:
            settings.setdefault("connect_timeout_ms", max(1, round(client.connect_timeout * 1000)))
        link = BlockingLink(address.namesrv, self.options, settings)
        try:
            link.start()
        except BaseException:
            link.close()
            raise
        return link

    def driver_version(self) -> str:
        """Returns the version of this distribution."""
        return VERSION

    def as_uri(self, uri: str, include_password: bool = False, mask: str = "**") -> str:
        """Returns the URL, its secret key masked."""
        head, at, hosts = uri.rpartition("@")
        keys = head.rpartition("/")[2]
        if include_password or ":" not in keys:
            return uri
        return f"{head.rpartition(':')[0]}:{mask}{at}{hosts}"

    def notify(self) -> None:
        """Wakes whoever waits in `drain_events`."""
        with self.arrived:
            self._changes += 1
            self.arrived.notify_all()

    def drain_events(self, connection: Any, timeout: float | None = None) -> None:
        """Hands out what has come, and waits for that if need be.

        Args:
            connection: this transport.
            timeout: in seconds; None for no end.

        Raises:
            TimeoutError: nothing has come for so long.
        """
        end_s = None if timeout is None else self._clock.monotonic() + timeout
        while True:
            with self.arrived:
                seen = self._changes
            if sum([channel.deliver() for channel in list(self.channels)]):
                return
            left_s = None if end_s is None else end_s - self._clock.monotonic()
            if left_s is not None and left_s <= 0:
                raise TimeoutError
            self._wait_for_change(seen, left_s)

    def _wait_for_change(self, seen: int, timeout_s: float | None) -> None:
        with self.arrived:
            self.arrived.wait_for(lambda: self._changes != seen, timeout_s)

    def close_connection(self, connection: Any) -> None:
        """Closes all channels, and the client."""
        super().close_connection(connection)
        link, self._link = self._link, None
        if link is not None:
            link.close()
