"""The clients with which the control API publishes messages and resets groups."""

from __future__ import annotations

import asyncio

from pocketmq.client import Admin, Producer
from pocketmq.testing.clients import ClientSettings
from pocketmq.testing.core import Core

GROUP = "pocketmq-control"


class ControlClients:
    """Keeps a producer and an administrator, which start when they are first needed.

    Args:
        core: the cluster.
    """

    def __init__(self, core: Core) -> None:
        self._settings = ClientSettings(core, "")
        self._producer: Producer | None = None
        self._admin: Admin | None = None
        self._turn = asyncio.Lock()

    async def producer(self) -> Producer:
        """Returns the producer, started."""
        async with self._turn:
            if self._producer is None:
                producer = Producer(GROUP, **self._settings.instance({}))
                await producer.start()
                self._producer = producer
        return self._producer

    async def admin(self) -> Admin:
        """Returns the administrator, started."""
        async with self._turn:
            if self._admin is None:
                admin = Admin(**self._settings.instance({}))
                await admin.start()
                self._admin = admin
        return self._admin

    async def renew(self) -> None:
        """Makes the clients ask for routes again after a change of topics."""
        async with self._turn:
            producer, self._producer = self._producer, None
            admin, self._admin = self._admin, None
        if producer is not None:
            await producer.close()
        if admin is not None:
            await admin.close()

    async def close(self) -> None:
        """Closes both clients. Idempotent."""
        await self.renew()
        self._settings.close()
