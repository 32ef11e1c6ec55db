"""DAGs whose tasks wait for orders, and one that runs whenever an order is cancelled.

What they get goes into the file that the variable ``DONE`` of the environment names.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.providers.common.messaging.triggers.msg_queue import MessageQueueTrigger
from airflow.sdk import DAG, Asset, AssetWatcher, task

from pocketmq.airflow.sensor import MessageSensor

BEGINNING = datetime(2025, 1, 1, tzinfo=UTC)


def note(text: str) -> None:
    """Adds a line to the file."""
    with open(os.environ["DONE"], "a", encoding="utf-8") as file:
        file.write(f"{text}\n")


with DAG("billing", schedule=None, start_date=BEGINNING):

    @task  # type: ignore[untyped-decorator]
    def pay(order: dict[str, Any]) -> None:
        """Notes the order that the sensor got."""
        note(f"paid {order['body']}")

    pay(MessageSensor(task_id="order", topic="Orders", group="billing", expression="new").output)

with DAG("shipping", schedule=None, start_date=BEGINNING):

    @task  # type: ignore[untyped-decorator]
    def ship(order: dict[str, Any]) -> None:
        """Notes the order that the sensor got."""
        note(f"shipped {order['body']}")

    ship(
        MessageSensor(
            task_id="order", topic="Orders", group="shipping", expression="paid",
            invisible_ms=10_000,
        ).output
    )  # fmt: skip

cancelled = Asset(
    "cancelled_orders",
    watchers=[
        AssetWatcher(
            name="orders",
            trigger=MessageQueueTrigger(
                scheme="pocketmq", topic="Orders", group="refunds", expression="cancelled"
            ),
        )
    ],
)

with DAG("refunds", schedule=[cancelled], start_date=BEGINNING):

    @task(retries=9, retry_delay=timedelta(seconds=1))  # type: ignore[untyped-decorator]
    def refund(triggering_asset_events: Any = None) -> None:
        """Notes the orders that the triggerer got."""
        for events in triggering_asset_events.values():
            for event in events:
                note(f"refunded {event.extra['payload']['body']}")

    refund()
