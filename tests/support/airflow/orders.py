"""Orders that come as messages, and events of Airflow that hold them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import TriggerEvent

from pocketmq.client import Message
from pocketmq.testing import AsyncCluster

BILLING: dict[str, Any] = {"topic": "Orders", "group": "billing"}
WAIT_S = 20.0


async def send(cluster: AsyncCluster, *bodies: str | bytes, tags: str = "new") -> None:
    """Sends orders."""
    async with cluster.producer() as producer:
        for body in bodies:
            await producer.send(Message("Orders", body, keys="4711", tags=tags))


async def next_event(events: AsyncIterator[TriggerEvent]) -> dict[str, Any]:
    """Returns the payload of the next event, which Airflow can keep."""
    event = await asyncio.wait_for(anext(events), WAIT_S)
    payload: dict[str, Any] = json.loads(json.dumps(event.payload))
    return payload
